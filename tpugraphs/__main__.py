"""``python -m tpugraphs``: the same as the command ``tpugraphs``."""

import sys

from tpugraphs.cli import main

if __name__ == "__main__":
    sys.exit(main())
