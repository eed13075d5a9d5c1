# SPDX-License-Identifier: Apache-2.0
"""The shapes that leave and enter the process: frames, records, codes."""
