# SPDX-License-Identifier: Apache-2.0
"""Counts and times the work of this process, for the page `/metrics` that Prometheus reads."""
