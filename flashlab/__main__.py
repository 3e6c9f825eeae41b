"""``python -m flashlab``: the same as the flashlab command. Floor: front."""

import sys

from flashlab.cli import main

sys.exit(main())
