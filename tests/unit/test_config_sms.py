# SPDX-License-Identifier: Apache-2.0
"""Settings of texts: where they go by default, and what is refused."""

from pathlib import Path

import pytest

from tests.unit.test_config import NO_FILE, STRONG, load, mistakes, toml
from tests.unit.test_config_engines import the_mistake
from tidings.config import Config, Sns, Webhook, load_config

PUBLIC = {"HOST": "0.0.0.0", "ROOT_KEY": STRONG}
WEBHOOK = {"SMS": "webhook", "SMS_URL": "https://texts.example/in", "SMS_SECRET": STRONG}
SNS = {"SMS": "sns", "SMS_REGION": "eu-central-1"}


def load_all(settings: dict[str, str]) -> Config:
    return load_config({}, {f"TIDINGS_{name}": text for name, text in settings.items()}, NO_FILE)


def test_texts_go_into_the_log_where_nobody_else_can_ask_for_one() -> None:
    assert load().sms == "log"
    assert load(HOST="localhost").sms == "log"
    assert load_all(PUBLIC).sms == "off"
    assert load(TRUSTED_PROXIES="10.0.0.1").sms == "off", "others come through the proxy"
    assert load(SMS="off").sms == "off"
    assert load(SMS="log").sms == "log"


@pytest.mark.attack("B09")
def test_codes_never_stand_in_the_log_of_a_server_that_others_can_reach() -> None:
    assert "TIDINGS_SMS=log writes login codes into the log" in the_mistake(
        {**PUBLIC, "SMS": "log"}
    )


def test_texts_by_webhook() -> None:
    config = load_all(PUBLIC | WEBHOOK | {"SMS_PER_DAY": "500"})
    assert config.sms == Webhook(url="https://texts.example/in", secret=STRONG)
    assert config.sms_per_day == 500
    assert load().sms_per_day == 10_000
    for secret in (STRONG, "texts.example"):
        assert secret not in repr(config)


def test_texts_through_sns() -> None:
    config = load_all(SNS | {"SMS_ENDPOINT": "http://localhost:4566", "SMS_SENDER": "Tidings"})
    assert config.sms == Sns(
        region="eu-central-1", endpoint="http://localhost:4566", sender="Tidings"
    )
    environment = {"TIDINGS_SMS": "sns", "AWS_REGION": "us-east-1"}
    assert load_config({}, environment, NO_FILE).sms == Sns(region="us-east-1")


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"SMS": "webhook", "SMS_SECRET": STRONG}, "needs an address: set TIDINGS_SMS_URL"),
        ({"SMS": "webhook", "SMS_URL": "https://t.example"}, "set TIDINGS_SMS_SECRET"),
        ({"SMS": "sns"}, "set TIDINGS_SMS_REGION or AWS_REGION"),
        ({"SMS": "pigeon"}, "TIDINGS_SMS: "),
        ({"SMS_URL": "https://t.example"}, "has no effect without TIDINGS_SMS=webhook"),
        ({"SMS_REGION": "eu-central-1"}, "has no effect without TIDINGS_SMS=sns"),
        ({**SNS, "SMS_SECRET": STRONG}, "has no effect without TIDINGS_SMS=webhook"),
        ({**WEBHOOK, "SMS_SENDER": "Tidings"}, "has no effect without TIDINGS_SMS=sns"),
        ({**WEBHOOK, "SMS_SECRET": "short"}, "TIDINGS_SMS_SECRET: "),
        ({**WEBHOOK, "SMS_URL": "texts.example"}, "TIDINGS_SMS_URL: "),
        ({**SNS, "SMS_SENDER": "12345"}, "TIDINGS_SMS_SENDER: "),
        ({**SNS, "SMS_SENDER": "TwelveLetter"}, "TIDINGS_SMS_SENDER: "),
        ({**SNS, "SMS_REGION": "EU Central"}, "TIDINGS_SMS_REGION: "),
        ({"SMS_PER_DAY": "-1"}, "TIDINGS_SMS_PER_DAY: "),
        ({"SMS_PER_DAY": "many"}, "TIDINGS_SMS_PER_DAY: "),
    ],
)
def test_what_is_wrong_is_told_once(settings: dict[str, str], told: str) -> None:
    assert told in the_mistake(settings)


def test_the_secret_stands_in_a_file_for_its_owner_only(tmp_path: Path) -> None:
    text = f'sms = "webhook"\nsms_url = "https://t.example"\nsms_secret = "{STRONG}"'
    sms = load(None, toml(tmp_path, text)).sms
    assert isinstance(sms, Webhook) and sms.secret == STRONG
    [told] = mistakes(None, toml(tmp_path, text, mode=0o644))
    assert "can be read by others" in told
