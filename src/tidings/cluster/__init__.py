# SPDX-License-Identifier: Apache-2.0
"""Registry of connections and handover between the gateways of one deployment, in Redis."""
