# SPDX-License-Identifier: Apache-2.0
"""The command `tidings` as a process that may have only 200 file descriptors."""

import resource
import sys

from tidings.cli import main

DESCRIPTORS = 200

if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))
    sys.exit(main())
