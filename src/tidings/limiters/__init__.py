# SPDX-License-Identifier: Apache-2.0
"""Rate limits, counted in this process or in Redis."""
