# SPDX-License-Identifier: Apache-2.0
"""Export of all facts of a deployment to a file, and import into an empty store."""
