# SPDX-License-Identifier: Apache-2.0
"""HTTP on the one port: parsing, limits, refusals."""
