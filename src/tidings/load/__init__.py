# SPDX-License-Identifier: Apache-2.0
"""Load from the client's side: pairs of users who talk, and what that came to.

It knows the server by its address only, so it measures a deployment wherever that runs.
"""
