# SPDX-License-Identifier: Apache-2.0
"""The load generator of `tidings bench`: pairs of users write to each other over sockets.

It knows the server by its address only, so it measures a deployment wherever that runs.
"""
