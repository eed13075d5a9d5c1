# SPDX-License-Identifier: Apache-2.0
"""Asking a service that speaks the JSON protocol of AWS whether it is there."""

import http.client
from collections.abc import Mapping
from typing import Final

from scripts.services.process import HOST

_ANSWER_SECONDS_MAX: Final = 5.0


def answers(port: int, operation: str, headers: Mapping[str, str]) -> bool:
    """Whether it carries out an operation that needs nothing to be told."""
    connection = http.client.HTTPConnection(HOST, port, timeout=_ANSWER_SECONDS_MAX)
    told = {"Content-Type": "application/x-amz-json-1.0", "X-Amz-Target": operation, **headers}
    try:
        connection.request("POST", "/", body="{}", headers=told)
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
