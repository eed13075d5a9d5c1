# SPDX-License-Identifier: Apache-2.0
"""Inboxes on DynamoDB."""
