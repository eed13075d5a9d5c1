# SPDX-License-Identifier: Apache-2.0
"""Downloads, verifies and starts DynamoDB Local, Kafka, Redis and ElasticMQ on this machine.

`make services` starts one of each for developers, on unusual ports. Tests use these services if
they run, and otherwise start their own.
"""
