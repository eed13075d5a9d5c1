# SPDX-License-Identifier: Apache-2.0
"""Buses: how facts reach those who deliver them."""
