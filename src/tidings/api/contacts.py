# SPDX-License-Identifier: Apache-2.0
"""Contacts: finding users by their phone numbers."""

from typing import Final

import msgspec

from tidings.actions.identity.caller import Caller
from tidings.actions.identity.users import Contact
from tidings.actions.verbs import LoginVerbs
from tidings.api.fields import PhoneNumbers
from tidings.api.operations import operation
from tidings.api.requests import Body
from tidings.model import costs
from tidings.model.ids import user_id
from tidings.model.refusals import RateLimited

TAG: Final = "Users"


class ContactSearch(Body, frozen=True):
    """The phone numbers to look up."""

    phone_numbers: PhoneNumbers


class ContactRecord(msgspec.Struct):
    """A user, with the phone number as it was given."""

    phone_number: str
    user_id: str
    display_name: str | None


class ContactList(msgspec.Struct):
    """The users found; unknown numbers are left out."""

    data: list[ContactRecord]


@operation(
    "POST",
    "/v1/contacts",
    tag=TAG,
    summary="Find users by their phone numbers",
    refusals=(RateLimited,),
    body_cost=lambda search: costs.look_up(len(search.phone_numbers)),
)
async def find_contacts(caller: Caller, data: ContactSearch, logins: LoginVerbs) -> ContactList:
    """Return the users of the caller's own tenant who have these numbers. A user can look up at
    most 2,000 numbers a day."""
    found = await logins.find_contacts(caller, data.phone_numbers)
    return ContactList([_record(contact) for contact in found])


def _record(contact: Contact) -> ContactRecord:
    return ContactRecord(contact.phone_number, user_id(contact.user), contact.display_name)


OPERATIONS: Final = (find_contacts,)
