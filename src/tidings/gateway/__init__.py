# SPDX-License-Identifier: Apache-2.0
"""Sockets and HTTP connections: the listener, the protocol, and the connected users."""
