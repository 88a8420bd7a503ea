"""python -m ars: the command line."""

import sys

from ars.cli.main import main

sys.exit(main())
