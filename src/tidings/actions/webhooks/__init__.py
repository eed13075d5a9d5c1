# SPDX-License-Identifier: Apache-2.0
"""Webhooks: endpoints of tenants, the events that they get, and attempts to deliver them."""
