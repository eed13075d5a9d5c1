# SPDX-License-Identifier: Apache-2.0
"""For suites that run on every engine: `from tests.integration.engines import engine as engine`.

And for those that do more than anyone honest: `from ... import no_limits as no_limits`.
"""

import pytest

from tests.support.engine import ENGINES, WITH_FRONTS


@pytest.fixture(scope="module", params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    """Each engine in turn, in place of the one that other suites run on."""
    return str(request.param)


@pytest.fixture(
    scope="module",
    name="engine",
    params=[*ENGINES, pytest.param(WITH_FRONTS, marks=pytest.mark.soak)],
)
def socket_engine(request: pytest.FixtureRequest) -> str:
    """The same for suites that use sockets, which several processes may hold: in the long run."""
    return str(request.param)


@pytest.fixture(
    scope="module",
    name="engine",
    params=[
        pytest.param(one, marks=() if one == "sqlite" else pytest.mark.soak) for one in ENGINES
    ],
)
def long_engine(request: pytest.FixtureRequest) -> str:
    """SQLite, and in the long run every engine.

    For suites that fill long logs, and for those of REST, whose rules are above the stores: the
    contract suites, the models and the measured costs ask every engine in every run.
    """
    return str(request.param)


@pytest.fixture(scope="module", name="limits")
def no_limits() -> str:
    """Without rate limits: for suites that try something else with more than they allow."""
    return "off"
