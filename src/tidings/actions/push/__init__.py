# SPDX-License-Identifier: Apache-2.0
"""Push: devices register, tenants give credentials, and notices are sent to devices."""
