# SPDX-License-Identifier: Apache-2.0
"""Checks that may take long, in a process of their own."""
