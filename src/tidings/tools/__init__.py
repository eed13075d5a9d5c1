# SPDX-License-Identifier: Apache-2.0
"""Tools beside the server: the capacity planner and the load generator."""
