# SPDX-License-Identifier: Apache-2.0
"""The DynamoDB client: requests, retries, values."""
