# SPDX-License-Identifier: Apache-2.0
"""The parts that all tables share: connections, the writer, the readers, and the schema."""
