# SPDX-License-Identifier: Apache-2.0
"""Connections, the writer, readers and the schema."""
