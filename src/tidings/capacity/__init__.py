# SPDX-License-Identifier: Apache-2.0
"""The planner: what a load needs on DynamoDB, and what it costs per month."""
