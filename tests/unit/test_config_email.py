# SPDX-License-Identifier: Apache-2.0
"""The settings of the mail server."""

from pathlib import Path

import pytest

from tidings.config import WrongSettings, load_config
from tidings.config.settings import Smtp

COMPLETE = {
    "TIDINGS_EMAIL": "smtp",
    "TIDINGS_SMTP_URL": "smtp://mail.example.org:587",
    "TIDINGS_SMTP_SENDER": "news@example.org",
    "TIDINGS_PUBLIC_URL": "https://chat.example.org",
}


def test_a_mail_server_is_set_up(tmp_path: Path) -> None:
    more = {"TIDINGS_SMTP_USERNAME": "me", "TIDINGS_SMTP_PASSWORD": "a secret"}
    config = load_config({"data": str(tmp_path)}, {**COMPLETE, **more}, tmp_path / "none")
    assert isinstance(config.email, Smtp)
    assert (config.email.username, config.email.password) == ("me", "a secret")
    assert "a secret" not in repr(config)
    assert config.network.public_url == "https://chat.example.org"


def test_there_is_none_by_default(tmp_path: Path) -> None:
    assert load_config({"data": str(tmp_path)}, {}, tmp_path / "none").email == "off"


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("TIDINGS_PUBLIC_URL", None, "TIDINGS_PUBLIC_URL"),
        ("TIDINGS_PUBLIC_URL", "http://chat.example.org", "https://"),
        ("TIDINGS_SMTP_URL", None, "TIDINGS_SMTP_URL"),
        ("TIDINGS_SMTP_URL", "smtp://me:secret@mail.example.org", "settings of their own"),
        ("TIDINGS_SMTP_URL", "https://mail.example.org", "smtp://host:port"),
        ("TIDINGS_SMTP_URL", "smtp://mail.example.org/path", "smtp://host:587"),
        ("TIDINGS_SMTP_SENDER", None, "TIDINGS_SMTP_SENDER"),
        ("TIDINGS_SMTP_SENDER", "News <news@example.org>", "e-mail address"),
        ("TIDINGS_SMTP_USERNAME", "me", "TIDINGS_SMTP_PASSWORD"),
        ("TIDINGS_EMAIL", "off", "has no effect without TIDINGS_EMAIL=smtp"),
    ],
)
def test_what_is_missing_or_wrong_is_named(
    tmp_path: Path, name: str, value: str | None, said: str
) -> None:
    given = {**COMPLETE, name: value}
    environment = {name: text for name, text in given.items() if text is not None}
    with pytest.raises(WrongSettings) as raised:
        load_config({"data": str(tmp_path)}, environment, tmp_path / "none")
    assert said in str(raised.value)
    assert "secret" not in str(raised.value)
