# SPDX-License-Identifier: Apache-2.0
"""The nouns and rules of messaging: values and pure functions, without I/O."""
