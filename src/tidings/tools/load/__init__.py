# SPDX-License-Identifier: Apache-2.0
"""The load generator."""
