# SPDX-License-Identifier: Apache-2.0
"""Exporting and importing all facts of a deployment."""
