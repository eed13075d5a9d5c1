# SPDX-License-Identifier: Apache-2.0
"""The verbs of users and operators: each checks a request, writes, and publishes an event."""
