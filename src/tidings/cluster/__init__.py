# SPDX-License-Identifier: Apache-2.0
"""The gateways of one deployment: their registry and the handover between them, in Redis."""
