# SPDX-License-Identifier: Apache-2.0
"""Formats of the frames, records, events and codes that enter or leave the process."""
