"""python -m ars.cli."""

import sys

from ars.cli import main

sys.exit(main())
