# SPDX-License-Identifier: Apache-2.0
"""Capacity planner: units, bytes, processes and dollars that a load takes on DynamoDB."""
