"""The command-line program: models from files, and stored runs.

Exit codes: 0 when the run finished (warnings are printed, they do not change it), 1 when sampling
failed, 2 when what was asked for cannot be done (before any sampling), 3 when what was computed
could not be written where it should be (the message says where it is kept), 130 after Ctrl-C.
Messages go to stderr, without a traceback unless ``--full-errors`` asks for it.
"""

from collections.abc import Sequence
from importlib import import_module

from rich.console import Console
from rich.markup import escape

from pymc_tempering.cli.arguments import parse
from pymc_tempering.cli.model_file import CommandError, load_model
from pymc_tempering.errors import OutputError, TemperingError

__all__ = ["CommandError", "load_model", "main"]

EXIT_USAGE = 2
EXIT_NOT_WRITTEN = 3
EXIT_INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command-line program.

    Parameters
    ----------
    argv : sequence of str, optional
        The arguments; those of the process when left out.

    Returns
    -------
    int
        The exit code: 0, 1 (sampling failed), 2 (the request cannot be met), 3 (the result is kept
        elsewhere than asked) or 130 (interrupted).

    Raises
    ------
    SystemExit
        By argparse, for ``--help`` and ``--version`` (code 0) and for options it does not know
        (code 2).

    Examples
    --------
    >>> from pymc_tempering.cli import main
    >>> main(["no_such_file.py"])
    2
    """
    arguments = parse(argv)
    errors = Console(stderr=True, highlight=False)
    try:
        # imported by name, since help and version need none of what sampling does
        import_module(f"pymc_tempering.cli.{arguments.task}").run(arguments)
    except TemperingError as error:
        if arguments.full_errors:
            errors.print_exception()
        errors.print(f"[bold red]Error:[/] {escape(str(error))}", soft_wrap=True)
        if isinstance(error, CommandError):
            return error.exit_code
        return EXIT_NOT_WRITTEN if isinstance(error, OutputError) else EXIT_USAGE
    except KeyboardInterrupt:
        errors.print("Interrupted; nothing more was written.")
        return EXIT_INTERRUPTED
    return 0
