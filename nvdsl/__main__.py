"""``python -m nvdsl``: the command ``nvdsl``."""

import sys

from nvdsl_command import main

sys.exit(main())
