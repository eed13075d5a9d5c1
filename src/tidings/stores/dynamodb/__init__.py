# SPDX-License-Identifier: Apache-2.0
"""The store for many processes: DynamoDB, or any engine that speaks its API."""
