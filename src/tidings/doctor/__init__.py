# SPDX-License-Identifier: Apache-2.0
"""Examines a deployment without changing it, and says what to do about the faults it finds."""
