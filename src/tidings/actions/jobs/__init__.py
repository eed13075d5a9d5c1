# SPDX-License-Identifier: Apache-2.0
"""Jobs of tenants: long operations such as deleting a user, done in steps after the answer."""
