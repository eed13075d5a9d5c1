# SPDX-License-Identifier: Apache-2.0
"""Makes a running server from the settings. Only this package knows which adapters exist."""

from tidings.assembly.core import Core, open_core, open_for_maintenance
from tidings.assembly.foundation import key_files

__all__ = ["Core", "key_files", "open_core", "open_for_maintenance"]
