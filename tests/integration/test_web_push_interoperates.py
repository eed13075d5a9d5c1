# SPDX-License-Identifier: Apache-2.0
"""Another implementation of Web Push decrypts what ours encrypts."""

import json
from base64 import urlsafe_b64encode
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key

from scripts.services import node_tools
from scripts.services.obtaining import Unavailable
from tests.support.node import run_in
from tests.support.services import do_without
from tidings.assembly.system import SystemChance
from tidings.outgoing.push.elliptic_keys import (
    new_private_key,
    write_private_key,
    write_public_key,
)
from tidings.outgoing.push.encryption import (
    TEXT_BYTES_MAX,
    SubscriptionKeys,
    encrypt,
    padded_length,
)

DECRYPT = """
const { createECDH } = require("node:crypto");
const ece = require("http_ece");
const given = JSON.parse(process.argv[1]);
const key = createECDH("prime256v1");
key.setPrivateKey(Buffer.from(given.key, "base64url"));
const body = Buffer.from(given.body, "base64url");
const options = { version: "aes128gcm", privateKey: key, authSecret: given.auth };
process.stdout.write(ece.decrypt(body, options));
"""


@pytest.fixture
def tools(request: pytest.FixtureRequest) -> Path:
    """The folder with the programs of Node."""
    try:
        return node_tools.obtain()
    except Unavailable as error:
        do_without(request.config, node_tools.NAME, str(error))


@pytest.mark.parametrize("length", [0, 1, 511, 512, TEXT_BYTES_MAX])
async def test_another_implementation_decrypts_our_messages(tools: Path, length: int) -> None:
    chance = SystemChance()
    key = generate_private_key(SECP256R1())
    auth = chance.token(16)
    text = b"x" * length
    body = encrypt(
        text,
        SubscriptionKeys(write_public_key(key.public_key()), auth),
        sender=new_private_key(chance),
        salt=chance.token(16),
        padded_to=padded_length(length),
    )
    given = {"key": write_private_key(key), "auth": auth, "body": body}
    told = json.dumps({name: urlsafe_b64encode(one).decode() for name, one in given.items()})
    modules = {"NODE_PATH": str(tools.parent)}
    said = await run_in(tools.parent, tools, "node", "-e", DECRYPT, told, environment=modules)
    assert said == text
