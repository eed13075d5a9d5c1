# SPDX-License-Identifier: Apache-2.0
"""What the actions need from the world: small protocols, with their guarantees in prose."""
