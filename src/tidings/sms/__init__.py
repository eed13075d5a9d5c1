# SPDX-License-Identifier: Apache-2.0
"""Texts to phones: through the log, a webhook, or Amazon SNS."""
