# SPDX-License-Identifier: Apache-2.0
"""Our signatures are those of the SDK."""

import hashlib
from datetime import datetime

import pytest
from botocore.auth import S3SigV4Auth, SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import ReadOnlyCredentials

from tidings.aws.signing import CONTENT_TYPE, ObjectSigner, Service, Signer, encoded_query
from tidings.buses.sqs import SQS
from tidings.model.ids import from_rfc3339
from tidings.stores.dynamodb.client.transport import STREAMS, TABLES

HOST = "a-service.eu-west-1.amazonaws.com"
BODY = '{"TableName":"messages","Item":{"text":{"S":"grüezi"}}}'.encode()


def signed_by_sdk(
    service: Service,
    credentials: ReadOnlyCredentials,
    time: str,
    monkeypatch: pytest.MonkeyPatch,
) -> str:
    moment = datetime.fromisoformat(time)
    monkeypatch.setattr("botocore.auth.get_current_datetime", lambda: moment.replace(tzinfo=None))
    headers = {"Content-Type": CONTENT_TYPE, "X-Amz-Target": f"{service.api}.PutItem"}
    request = AWSRequest("POST", f"https://{HOST}/", headers, BODY)
    SigV4Auth(credentials, service.name, "eu-west-1").add_auth(request)
    return str(request.headers["Authorization"])


@pytest.mark.parametrize("service", [TABLES, STREAMS, SQS])
@pytest.mark.parametrize("token", [None, "a/session+token=="])
def test_a_signature_is_what_the_sdk_makes_of_it(
    service: Service, token: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    signer = Signer(HOST, "eu-west-1", service)
    # The second is on another day, for which another key is derived; the third is for another user.
    for secret, time in (
        ("secret", "2030-01-31T23:59:59.999Z"),
        ("secret", "2030-02-01T00:00:00.000Z"),
        ("other", "2030-02-01T00:00:00.000Z"),
    ):
        credentials = ReadOnlyCredentials("AKIDEXAMPLE", secret, token)
        headers = signer.headers(credentials, from_rfc3339(time), "PutItem", BODY)

        assert headers["authorization"] == signed_by_sdk(service, credentials, time, monkeypatch)
        assert headers.get("x-amz-security-token") == token


@pytest.mark.parametrize("token", [None, "a/session+token=="])
@pytest.mark.parametrize(
    ("method", "path", "query"),
    [
        ("PUT", "/bucket/a%20prefix/id/name", {}),
        ("GET", "/bucket", {"list-type": "2", "prefix": "a prefix/+&=", "max-keys": "2"}),
    ],
)
def test_a_signature_for_an_object_is_what_the_sdk_makes_of_it(
    method: str,
    path: str,
    query: dict[str, str],
    token: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    credentials = ReadOnlyCredentials("AKIDEXAMPLE", "secret", token)
    time = "2030-01-31T23:59:59.999Z"
    moment = datetime.fromisoformat(time).replace(tzinfo=None)
    monkeypatch.setattr("botocore.auth.get_current_datetime", lambda: moment)
    sha256 = hashlib.sha256(BODY).hexdigest()
    more = {"range": "bytes=0-9", "content-type": CONTENT_TYPE}
    url = f"https://{HOST}{path}" + (f"?{encoded_query(query)}" if query else "")
    request = AWSRequest(method, url, {**more}, BODY)
    S3SigV4Auth(credentials, "s3", "eu-west-1").add_auth(request)

    signer = ObjectSigner(HOST, "eu-west-1")
    at = from_rfc3339(time)
    headers = signer.headers(credentials, at, method, path, query, sha256, more)

    assert headers["authorization"] == request.headers["Authorization"]
