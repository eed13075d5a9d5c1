# SPDX-License-Identifier: Apache-2.0
"""Encryption of content: data keys of authors, the master key, its rotation, and erasure."""
