"""``python -m pymc_tempering``: the command-line program, see :mod:`pymc_tempering.cli`."""

import sys

from pymc_tempering.cli import main

# Worker processes import this file under another name and must not start the program again.
if __name__ == "__main__":
    sys.exit(main())
