# SPDX-License-Identifier: Apache-2.0
"""The engines that store data: one folder each, with sibling files of the same names."""
