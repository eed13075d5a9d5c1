# SPDX-License-Identifier: Apache-2.0
"""DynamoDB Local, Kafka and Redis on this machine: obtained once, checked, started on own ports.

`make services` starts one of each to work with; tests start theirs, or use those.
"""
