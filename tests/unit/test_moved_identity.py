# SPDX-License-Identifier: Apache-2.0
"""Users that an import writes at once: a phone number is the first one's alone."""

from tidings.model.ids import user_key
from tidings.ports.export_facts import SecretFact, UserFact, Written
from tidings.stores.dynamodb.identity.items import with_own_numbers

NUMBER = "+491701234567"


def a_user(tenant: str, name: str, number: str | None) -> UserFact:
    return UserFact(user_id=user_key(tenant, name), phone_number=number, created_at=1, updated_at=1)


def test_of_several_with_the_same_number_the_first_keeps_it() -> None:
    facts = [a_user("acme", name, NUMBER) for name in ("ann", "bob", "cat")]
    kept = [one.phone_number for one in with_own_numbers(facts) if isinstance(one, UserFact)]
    assert kept == [NUMBER, None, None]


def test_all_else_passes_as_it_is() -> None:
    facts: list[Written] = [
        SecretFact(name="cursors", master_key_id="m1", sealed=b"sealed"),
        a_user("acme", "ann", NUMBER),
        a_user("acme", "bob", None),
        a_user("acme", "cat", None),
        a_user("acme", "dan", "+491709876543"),
        a_user("other", "ann", NUMBER),
    ]
    assert list(with_own_numbers(facts)) == facts
