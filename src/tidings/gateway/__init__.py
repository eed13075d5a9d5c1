# SPDX-License-Identifier: Apache-2.0
"""Sockets: the door, the protocol of one connection, and who is connected."""
