# SPDX-License-Identifier: Apache-2.0
"""Registries: which gateway holds which connection, and the way from process to gateway."""
