# SPDX-License-Identifier: Apache-2.0
"""DynamoDB Local, Kafka, Redis and ElasticMQ on this machine: obtained once, checked, started.

`make services` starts one of each, on ports of their own, to work with; tests start theirs, or use
those.
"""
