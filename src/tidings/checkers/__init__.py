# SPDX-License-Identifier: Apache-2.0
"""Checks of values against JSON schemas, in a process of their own because they may take long."""
