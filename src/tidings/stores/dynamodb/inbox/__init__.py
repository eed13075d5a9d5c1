# SPDX-License-Identifier: Apache-2.0
"""Inboxes on DynamoDB: settings, notifications, copies, read marks and delivery jobs."""
