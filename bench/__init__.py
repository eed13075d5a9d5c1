# SPDX-License-Identifier: Apache-2.0
"""Speed, measured on the real server: never asserted in tests, always printed with its settings."""
