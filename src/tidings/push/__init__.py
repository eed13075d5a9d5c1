# SPDX-License-Identifier: Apache-2.0
"""Ways to reach users who have no connection."""
