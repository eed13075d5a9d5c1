# SPDX-License-Identifier: Apache-2.0
"""Generates the files in deploy/observability from the declared metrics and alerts."""
