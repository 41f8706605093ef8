"""Programs in processes that know no model yet, without the price of a process for each.

To import PyMC and what compiles takes some six seconds of a processor. One process does it, once
for each worker of pytest, and a copy of it runs every program that is asked for: what one leaves in
memory none of the others sees.
"""

import atexit
import functools
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

__all__ = ["fresh_process"]

PRELOADED = ("pymc_tempering.model.compile", "pymc_tempering.testing", "cloudpickle")
ENVIRONMENT = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}

_SERVER = """
import importlib, json, os, sys, traceback, types

def run(asked):
    for name, number, mode in (("in", 0, "r"), ("out", 1, "w"), ("err", 2, "w")):
        with open(os.path.join(asked["folder"], name), mode) as file:
            os.dup2(file.fileno(), number)
    os.chdir(asked["cwd"])
    sys.argv[1:] = asked["arguments"]
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    sys.stdin = os.fdopen(0)
    try:
        exec(asked["code"], main.__dict__)
        return 0
    except SystemExit as end:
        return end.code or 0
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()

for module in sys.argv[1:]:
    importlib.import_module(module)
answers = os.fdopen(os.dup(1), "w")
for line in sys.stdin:
    child = os.fork()
    if not child:
        os._exit(run(json.loads(line)))
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), file=answers, flush=True)
"""


def fresh_process(code, *arguments, data=b"", cwd=None, preloaded=PRELOADED):
    """Run a program that must succeed; what it prints.

    Its standard input is `data`, and modules that are `preloaded` may have been imported before.
    """
    arguments = [str(each) for each in arguments]
    if sys.platform != "linux":
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", code, *arguments], input=data,
            capture_output=True, cwd=cwd, env=ENVIRONMENT, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr.decode()[-3000:]
        return done.stdout.decode()
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "in").write_bytes(data)
        requested = {"code": code, "arguments": arguments, "folder": folder}
        server = _server(preloaded)
        server.stdin.write(json.dumps(requested | {"cwd": str(cwd or Path.cwd())}) + "\n")
        server.stdin.flush()
        returned = int(server.stdout.readline())
        assert returned == 0, Path(folder, "err").read_text()[-3000:]
        return Path(folder, "out").read_text()


@functools.cache
def _server(preloaded):
    server = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", _SERVER, *preloaded], env=ENVIRONMENT, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    atexit.register(server.communicate)
    return server
