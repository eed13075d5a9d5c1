# SPDX-License-Identifier: Apache-2.0
"""Buses and queues that carry events and delivery jobs between processes: Kafka, SQS, memory."""
