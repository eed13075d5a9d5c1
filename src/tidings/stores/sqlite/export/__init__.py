# SPDX-License-Identifier: Apache-2.0
"""Export from and import into the embedded store."""
