# SPDX-License-Identifier: Apache-2.0
"""What the actions need from the world: small protocols, each with its guarantees in prose."""
