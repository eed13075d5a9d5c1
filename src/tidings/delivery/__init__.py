# SPDX-License-Identifier: Apache-2.0
"""What happens after a fact is stored."""
