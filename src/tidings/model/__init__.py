# SPDX-License-Identifier: Apache-2.0
"""Nouns and rules of messaging: values and pure functions, no I/O."""
