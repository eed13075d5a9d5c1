# SPDX-License-Identifier: Apache-2.0
"""The DynamoDB client: operations on plain items, with retries and recorded costs."""
