# SPDX-License-Identifier: Apache-2.0
"""`python -m tidings`: the same as the command `tidings`."""

import sys

from tidings.cli import main

if __name__ == "__main__":
    sys.exit(main())
