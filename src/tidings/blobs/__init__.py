# SPDX-License-Identifier: Apache-2.0
"""The places for the bytes of attachments: a folder, or a bucket."""
