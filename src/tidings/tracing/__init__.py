# SPDX-License-Identifier: Apache-2.0
"""Spans of a trace, for the parts of the server that begin and end them."""
