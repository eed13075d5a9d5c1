# SPDX-License-Identifier: Apache-2.0
"""A small client for AWS services that use the JSON protocol: signs, sends, and names errors."""
