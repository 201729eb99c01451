"""`python -m blktwin` is the `blktwin` command."""

import sys

from blktwin.cli import main

if __name__ == "__main__":
    sys.exit(main())
