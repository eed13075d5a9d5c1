# SPDX-License-Identifier: Apache-2.0
"""Declares the actions in the log, and remembers for which requests a task works."""
