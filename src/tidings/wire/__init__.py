# SPDX-License-Identifier: Apache-2.0
"""The shapes that enter and leave the process: frames, records, codes."""
