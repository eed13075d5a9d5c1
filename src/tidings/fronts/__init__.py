# SPDX-License-Identifier: Apache-2.0
"""Fronts: processes that hold the sockets of one server, beside the owner, which has its store."""
