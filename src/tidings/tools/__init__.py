# SPDX-License-Identifier: Apache-2.0
"""Tools for operators that the server does not need: capacity planner and load generator."""
