# SPDX-License-Identifier: Apache-2.0
"""The declared tables made real: in an account, as infrastructure files, on a page of the docs."""
