# SPDX-License-Identifier: Apache-2.0
"""Engines that keep things: one folder each, with sibling files of the same names."""
