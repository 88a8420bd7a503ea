"""python -m ars.cli."""

import sys

from ars.cli.main import main

sys.exit(main())
