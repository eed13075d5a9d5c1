# SPDX-License-Identifier: Apache-2.0
"""Environment variables that commands read and that are not settings of the server."""

from typing import Final

TENANT_KEY: Final = "TIDINGS_TENANT_KEY"
"""A tenant key, for operators who do not have the root key."""
