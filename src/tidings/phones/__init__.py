# SPDX-License-Identifier: Apache-2.0
"""Send push notices and finished text messages to phones, through a webhook or Amazon SNS."""
