# SPDX-License-Identifier: Apache-2.0
"""Checks whether a service with the JSON protocol of AWS answers."""

import http.client
from collections.abc import Mapping
from typing import Final

from scripts.services.ports import HOST

_ANSWER_SECONDS_MAX: Final = 5.0


def answers(port: int, operation: str, headers: Mapping[str, str]) -> bool:
    """Return whether the service carries out an operation without arguments."""
    connection = http.client.HTTPConnection(HOST, port, timeout=_ANSWER_SECONDS_MAX)
    told = {"Content-Type": "application/x-amz-json-1.0", "X-Amz-Target": operation, **headers}
    try:
        connection.request("POST", "/", body="{}", headers=told)
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
