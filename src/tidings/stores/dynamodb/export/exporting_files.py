# SPDX-License-Identifier: Apache-2.0
"""Exports the uploads in the table of reactions, in order."""

from collections.abc import AsyncIterator

from tidings.model.ids import UserKey
from tidings.ports.export_feature_facts import UploadFact
from tidings.ports.export_inbox_facts import converted
from tidings.stores.dynamodb.chat import link_patterns as patterns
from tidings.stores.dynamodb.chat.uploads import to_upload, upload_key, uploads_of
from tidings.stores.dynamodb.client.dynamo import BATCH_GET_MAX, Dynamo
from tidings.stores.dynamodb.export.scanning import whole_table


async def upload_facts(dynamo: Dynamo) -> AsyncIterator[list[UploadFact]]:
    """Yield all uploads, by owner and id. Only their keys are collected in memory."""
    prefix = uploads_of(UserKey(""))
    only, values = "begins_with(#message_id, :uploads)", {":uploads": prefix}
    found: list[tuple[UserKey, str]] = []
    async for page in whole_table(dynamo, patterns.SCAN_UPLOADS, only, values):
        found += [
            (UserKey(item["message_id"].removeprefix(prefix)), item["reaction"]) for item in page
        ]
    found.sort()
    for start in range(0, len(found), BATCH_GET_MAX):
        keys = [upload_key(*place) for place in found[start : start + BATCH_GET_MAX]]
        items = await dynamo.batch_get(patterns.READ_UPLOADS, keys)
        facts = [converted(UploadFact, to_upload(item)) for item in items]
        yield sorted(facts, key=lambda fact: (fact.owner, fact.attachment_id))
