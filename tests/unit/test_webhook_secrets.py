# SPDX-License-Identifier: Apache-2.0
"""The keys that secrets of webhooks contain."""

import pytest

from tidings.model.webhook_secrets import shown_secret, signing_key


def test_a_shown_secret_contains_its_key() -> None:
    key = bytes(range(32))
    assert shown_secret(key).startswith("whsec_")
    assert signing_key(shown_secret(key)) == key


@pytest.mark.parametrize(
    "secret", ["a secret of my own", "c2VjcmV0", "whsec_not base64", "whsec_abc", "whsec_ü"]
)
def test_any_other_text_is_the_key_itself(secret: str) -> None:
    assert signing_key(secret) == secret.encode()
