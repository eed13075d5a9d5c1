# SPDX-License-Identifier: Apache-2.0
"""Compares this server with another chat server, ejabberd with PostgreSQL, under the same load."""
