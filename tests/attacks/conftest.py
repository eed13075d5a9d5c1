# SPDX-License-Identifier: Apache-2.0
"""The same ground as the integration tests stand on."""

from tests.integration.conftest import core_settings as core_settings
from tests.integration.conftest import deployment as deployment
from tests.integration.conftest import engine as engine
from tests.integration.conftest import limits as limits
from tests.integration.conftest import rest as rest
from tests.integration.conftest import server as server
from tests.integration.conftest import settings as settings
from tests.integration.conftest import town as town
from tests.integration.conftest import waits as waits
