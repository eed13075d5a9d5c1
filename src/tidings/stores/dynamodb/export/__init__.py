# SPDX-License-Identifier: Apache-2.0
"""Export of all facts from the tables of a deployment, and import into empty tables."""
