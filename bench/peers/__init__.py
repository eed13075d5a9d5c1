# SPDX-License-Identifier: Apache-2.0
"""The same load on a peer: ejabberd with PostgreSQL, side by side with this server."""
