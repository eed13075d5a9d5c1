# SPDX-License-Identifier: Apache-2.0
"""SMS services that send login codes: a webhook, Amazon SNS, or the log for a trial."""
