"""The findings of the founding papers, computed again: figures, and numbers printed here.

a  Graham & Storkey 2017, figure 1: Boltzmann machine relaxations (papers_bmr)
b  Graham & Storkey 2017, figure 2: radon (papers_radon)
c  Carlson et al. 2016, figure 2: estimators from simulated tempering (papers_rts)
d  Sohl-Dickstein & Culpepper 2012, figures 2 and 3: HAIS against AIS (papers_hais)
e  Syed et al. 2021: swap schemes of parallel tempering (papers_swaps)
f  Carlson et al. 2016, appendix G: q(beta) from a transition matrix (papers_stationary)
g  relatives that the papers name, and whether they are worth having (papers_relatives)
h  Sohl-Dickstein & Culpepper 2012, table 1: patches of photographs (papers_patches)
i  Graham & Storkey, arXiv v1, figure 4: a decoder of digits (papers_decoder)

Every study is a script of its own that takes ``--full`` and then draws into ``docs/figures``.
Without it runs are short and figures go into ``out``: they are no results.

    python benchmarks/papers.py --only c,e
"""

import argparse
import subprocess
import sys
from datetime import date
from pathlib import Path

from figures import console

STUDIES = {
    "a": "papers_bmr",
    "b": "papers_radon",
    "c": "papers_rts",
    "d": "papers_hais",
    "e": "papers_swaps",
    "f": "papers_stationary",
    "g": "papers_relatives",
    "h": "papers_patches",
    "i": "papers_decoder",
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default=",".join(STUDIES), help="letters, default all")
    parser.add_argument("--full", action="store_true", help="complete versions; hours on one core")
    arguments = parser.parse_args()
    failed = []
    for letter in arguments.only.split(","):
        name = STUDIES[letter]
        console.rule(f"{letter}  {name}  {date.today()}")
        options = ["--full"] if arguments.full else []
        # a process of its own: CPU times of one study say nothing of another
        script = Path(__file__).with_name(f"{name}.py")
        if subprocess.run([sys.executable, str(script), *options], check=False).returncode:
            failed.append(name)
    if failed:
        console.print(f"failed: {', '.join(failed)}")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
