# SPDX-License-Identifier: Apache-2.0
"""Makes a running server out of the settings; the only place that knows which adapters exist."""

from tidings.assembly.core import Core, key_files, open_core, open_for_maintenance

__all__ = ["Core", "key_files", "open_core", "open_for_maintenance"]
