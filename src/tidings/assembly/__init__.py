# SPDX-License-Identifier: Apache-2.0
"""The only place that knows which adapters exist: Config in, running Tidings out."""

from tidings.assembly.core import Core, key_files, open_core, open_for_maintenance

__all__ = ["Core", "key_files", "open_core", "open_for_maintenance"]
