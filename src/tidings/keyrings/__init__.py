# SPDX-License-Identifier: Apache-2.0
"""Where the keys of a deployment are stored: a private file or the environment."""
