# SPDX-License-Identifier: Apache-2.0
"""Keyrings: master keys and root key of a deployment, in private files or the environment."""
