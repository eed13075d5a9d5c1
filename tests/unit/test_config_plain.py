# SPDX-License-Identifier: Apache-2.0
"""Settings that would send something to another machine without encryption."""

import pytest

from tests.unit.test_config import NO_FILE, STRONG, load
from tests.unit.test_config_engines import MANY, SQS, TABLES, the_mistake, without

HERE = {"KAFKA_BOOTSTRAP": "127.0.0.1:9092,[::1]:9093", "REDIS_URL": "redis://localhost/0"}
LOCAL = {**without(MANY, "PLAIN_ENGINES"), **HERE}
PUSH = {"PUSH": "webhook", "PUSH_SECRET": STRONG}
SMS = {"SMS": "webhook", "SMS_SECRET": STRONG}


@pytest.mark.attack("S13", "H01")
@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({**LOCAL, "REDIS_URL": "redis://10.0.0.7:6379/0"}, "the connection to Redis"),
        ({**LOCAL, "REDIS_URL": "redis://user:pass@redis.example/0"}, "the connection to Redis"),
        ({**LOCAL, "KAFKA_BOOTSTRAP": "10.0.0.7:9092"}, "the connection to Kafka"),
        ({**LOCAL, "KAFKA_BOOTSTRAP": "127.0.0.1:9092,k2:9092"}, "the connection to Kafka"),
        ({**TABLES, "DYNAMODB_ENDPOINT": "http://10.0.0.7:8000"}, "the connection to DynamoDB"),
        ({**SQS, "SQS_QUEUE_URL": "http://10.0.0.7/1/jobs"}, "the connection to SQS"),
    ],
)
def test_a_plain_engine_elsewhere_needs_a_word(settings: dict[str, str], told: str) -> None:
    mistake = the_mistake(settings)
    assert told in mistake
    assert "TIDINGS_PLAIN_ENGINES=allow" in mistake
    assert "pass" not in mistake
    load(None, NO_FILE, **settings, PLAIN_ENGINES="allow")


@pytest.mark.attack("S21")
@pytest.mark.parametrize(
    ("settings", "name", "where"),
    [
        ({**LOCAL, **PUSH}, "PUSH_URL", "push.example/in"),
        (SMS, "SMS_URL", "10.0.0.7/texts"),
        ({"SMS": "sns", "SMS_REGION": "eu-west-1"}, "SMS_ENDPOINT", "sns.example"),
    ],
)
def test_codes_and_notices_travel_encrypted(
    settings: dict[str, str], name: str, where: str
) -> None:
    plain = {**settings, name: f"http://{where}"}
    mistake = the_mistake(plain)
    assert f"TIDINGS_{name} is not encrypted" in mistake
    assert where not in mistake, "an address may hold a password"
    load(None, NO_FILE, **plain, PLAIN_WEBHOOKS="allow")
    for url in (f"https://{where}", "http://127.0.0.1:9000/in"):
        load(None, NO_FILE, **{**settings, name: url})


def test_what_stays_on_this_machine_may_be_plain() -> None:
    load(None, NO_FILE, **LOCAL, DYNAMODB_ENDPOINT="http://127.0.0.1:8000")
    queue = "http://localhost:9324/1/jobs"
    load(None, NO_FILE, **{**SQS, "SQS_QUEUE_URL": queue})
