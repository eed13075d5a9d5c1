# SPDX-License-Identifier: Apache-2.0
"""Which gateway has which connection, and how processes send messages to gateways."""
