# SPDX-License-Identifier: Apache-2.0
"""Send push notices and text messages to phones, through a webhook or Amazon SNS."""
