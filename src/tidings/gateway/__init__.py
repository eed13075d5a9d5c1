# SPDX-License-Identifier: Apache-2.0
"""Serves the WebSocket connections of users: protocol, catch-up, live entries and presence."""
