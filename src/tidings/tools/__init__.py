# SPDX-License-Identifier: Apache-2.0
"""Tools for operators, which the server does not need: capacity planner and load generator."""
