# SPDX-License-Identifier: Apache-2.0
"""Limits: how often something may be done, counted in this process or in Redis."""
