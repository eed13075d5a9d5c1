# SPDX-License-Identifier: Apache-2.0
"""Storage engines, one package each with the same layout, and the code they share."""
