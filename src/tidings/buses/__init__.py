# SPDX-License-Identifier: Apache-2.0
"""How events travel from the process that stored a fact to those that deliver it."""
