# SPDX-License-Identifier: Apache-2.0
"""The store for scale: DynamoDB, or an engine that speaks its API, for any number of processes."""
