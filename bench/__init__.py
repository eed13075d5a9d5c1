# SPDX-License-Identifier: Apache-2.0
"""Benchmarks of the real server. Tests never assert their figures; each figure is printed with the
settings of its run."""
