"""`python -m vecenv` is `vecenv`."""

import sys

from vecenv.cli import main

if __name__ == "__main__":
    sys.exit(main())
