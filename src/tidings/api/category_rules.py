# SPDX-License-Identifier: Apache-2.0
"""The part of an inbox's settings that sets the defaults of its users' preferences."""

from tidings.api.requests import Body
from tidings.model.preferences import CategoryRule


class CategoryRuleBody(Body, frozen=True, kw_only=True):
    """What applies to a category unless a user has chosen something else. If the category is
    `required`, users cannot switch off what is on by default."""

    required: bool = False
    in_app: bool = True
    push: bool = True
    email: bool = True


def category_rules(given: dict[str, CategoryRuleBody] | None) -> dict[str, CategoryRule] | None:
    """Return the rules in a request."""
    if given is None:
        return None
    return {
        name: CategoryRule(
            required=rule.required, in_app=rule.in_app, push=rule.push, email=rule.email
        )
        for name, rule in given.items()
    }
