# SPDX-License-Identifier: Apache-2.0
"""Settings: flags, environment and file made into checked values, all mistakes told at once."""

from tidings.config.loading import FILE_NAME, Config, ConfigMistakes, load_config

__all__ = ["FILE_NAME", "Config", "ConfigMistakes", "load_config"]
