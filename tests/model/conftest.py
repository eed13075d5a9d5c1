# SPDX-License-Identifier: Apache-2.0
"""Has pytest explain the failed assertions of the modules that the state machine is made of."""

import pytest

pytest.register_assert_rewrite(
    "tests.model.ground",
    "tests.model.member_rules",
    "tests.model.message_rules",
    "tests.model.product",
    "tests.model.reading_rules",
    "tests.model.time_rules",
)
