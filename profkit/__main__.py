"""``python -m profkit``: the same as the command ``profkit``."""

import sys

from profkit.cli import main

sys.exit(main())
