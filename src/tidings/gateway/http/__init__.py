# SPDX-License-Identifier: Apache-2.0
"""Listens on the port and speaks HTTP/1.1 on it: limits, parsing, refusals, upgrades to sockets."""
