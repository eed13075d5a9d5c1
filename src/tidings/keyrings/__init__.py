# SPDX-License-Identifier: Apache-2.0
"""Where the keys of a deployment are kept: a private file beside the data, or the environment."""
