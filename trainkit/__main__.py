"""`python -m trainkit`: the command line."""

import sys

from trainkit.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
