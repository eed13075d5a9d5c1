# SPDX-License-Identifier: Apache-2.0
"""The socket's document names every frame, and every reference in it leads somewhere."""

import json
from typing import Any

import msgspec

from tidings.api.documents import make_socket_document
from tidings.wire import frames, inbox_frames, scheduled


def references(value: Any) -> list[str]:
    if isinstance(value, dict):
        own = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
        return own + [ref for child in value.values() for ref in references(child)]
    if isinstance(value, list):
        return [ref for child in value for ref in references(child)]
    return []


def follow(document: Any, reference: str) -> Any:
    for step in reference.removeprefix("#/").split("/"):
        document = document[step]
    return document


def test_every_reference_leads_somewhere() -> None:
    document = json.loads(json.dumps(make_socket_document()))
    found = references(document)
    assert found
    for reference in found:
        assert follow(document, reference)


def test_every_frame_is_in_the_document() -> None:
    tags = {
        kind.__struct_config__.tag
        for module in (frames, inbox_frames, scheduled)
        for kind in vars(module).values()
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct)
    }
    told = {
        message["name"] for message in make_socket_document()["components"]["messages"].values()
    }
    assert told == {tag for tag in tags if tag is not None}
