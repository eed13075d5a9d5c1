# SPDX-License-Identifier: Apache-2.0
"""Push services that reach users without a connection: a webhook, or the log for a trial."""
