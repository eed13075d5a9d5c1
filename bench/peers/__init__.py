# SPDX-License-Identifier: Apache-2.0
"""Compares this server with other servers under the same load, on the same core."""
