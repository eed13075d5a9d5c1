# SPDX-License-Identifier: Apache-2.0
"""What a load costs: the units of each use case, of other designs too, and the bill of a month."""
