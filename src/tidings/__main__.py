# SPDX-License-Identifier: Apache-2.0
"""Run the command `tidings`, as `python -m tidings`."""

import sys

from tidings.cli import main

if __name__ == "__main__":
    sys.exit(main())
