# SPDX-License-Identifier: Apache-2.0
"""Wire formats: the frames, records, events and codes that enter and leave the process."""
