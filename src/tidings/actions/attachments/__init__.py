# SPDX-License-Identifier: Apache-2.0
"""What users do with files: upload them, send them with messages, and read them."""
