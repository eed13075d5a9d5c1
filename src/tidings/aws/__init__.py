# SPDX-License-Identifier: Apache-2.0
"""Small client for AWS services: signs requests, sends them, and classifies errors."""
