# SPDX-License-Identifier: Apache-2.0
"""Sealing content: data keys, wrapping, rotation, erasure."""
