"""python -m flashlab: the same as the flashlab command."""

import sys

from flashlab.cli import main

sys.exit(main())
