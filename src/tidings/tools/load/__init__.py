# SPDX-License-Identifier: Apache-2.0
"""Load generator: pairs of users who chat over sockets, measured from the client's side."""
