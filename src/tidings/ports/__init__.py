# SPDX-License-Identifier: Apache-2.0
"""Protocols of everything the actions depend on, each with its guarantees in prose."""
