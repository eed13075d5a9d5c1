# SPDX-License-Identifier: Apache-2.0
"""Search over encrypted messages: words, queries, the scan of logs, and the encrypted index."""
