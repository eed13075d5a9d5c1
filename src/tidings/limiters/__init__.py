# SPDX-License-Identifier: Apache-2.0
"""Token buckets of the rate limits, in this process's memory or in Redis."""
