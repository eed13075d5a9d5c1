# SPDX-License-Identifier: Apache-2.0
"""The verbs: operations that check a request, write to the store, and publish an event."""
