# SPDX-License-Identifier: Apache-2.0
"""Reads the certificate with which the port speaks TLS, and its key, and checks that they fit."""

import re
import ssl
from pathlib import Path
from typing import Final

import msgspec

from tidings.data_folder import read_private_file
from tidings.model.setup_error import SetupError

CIPHERS: Final = "ECDHE+AESGCM:ECDHE+CHACHA20"
"""Ciphers of TLS 1.2: those with forward secrecy and authenticated encryption. The ciphers of TLS
1.3 are all of this kind."""
PROTOCOLS: Final = ("http/1.1",)
"""What the port speaks inside TLS, as ALPN names it."""

_CERTIFICATE: Final = re.compile(
    r"-----BEGIN CERTIFICATE-----\n.+?\n-----END CERTIFICATE-----\n?", re.DOTALL
)
_KEY: Final = re.compile(r"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----")


class CertificateFiles(msgspec.Struct, frozen=True):
    """The files of a certificate and its key, as PEM."""

    chain: Path
    """File with the certificate of this server, followed by those of the authorities between it and
    one that clients trust."""
    key: Path | None = None
    """File with the key; None if the key is in the first file, too."""


def read_chain(files: CertificateFiles) -> list[str]:
    """Return the certificates of the chain, each as PEM, the one of the server first.

    Raises:
        SetupError: The file cannot be read, or has no certificate.
    """
    try:
        text = files.chain.read_text("ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise SetupError(f"{files.chain} cannot be read: {error}") from error
    found: list[str] = _CERTIFICATE.findall(text.replace("\r\n", "\n"))
    if not found:
        raise SetupError(f"{files.chain} does not contain a certificate as PEM")
    return found


def make_context(files: CertificateFiles) -> ssl.SSLContext:
    """Return the TLS settings for new connections.

    Raises:
        SetupError: A file cannot be read, others may read the key, or the key does not fit.
    """
    read_chain(files)
    key = files.key or files.chain
    secret = read_private_file(key)
    if secret is None or _KEY.search(secret) is None:
        hint = "" if files.key else ": name the file of the key with TIDINGS_TLS_KEY"
        raise SetupError(f"{key} does not contain a private key as PEM{hint}")
    if "ENCRYPTED" in secret:
        raise SetupError(f"the key in {key} has a password: store it without one")
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    made.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    made.set_ciphers(CIPHERS)
    made.set_alpn_protocols(list(PROTOCOLS))
    try:
        made.load_cert_chain(files.chain, key)
    except ssl.SSLError as error:
        raise SetupError(_in_words(error, files.chain, key)) from error
    except (OSError, ValueError) as error:
        raise SetupError(f"{key}: {error}") from error
    return made


def _in_words(error: ssl.SSLError, chain: Path, key: Path) -> str:
    if error.reason == "KEY_VALUES_MISMATCH":
        return f"the key in {key} does not belong to the certificate in {chain}"
    return f"{chain} and {key} are not a certificate and its key: {error.reason or error}"


def trust_only(certificate: str) -> ssl.SSLContext:
    """Return the TLS settings of a client that trusts this certificate and no other.

    The name in the certificate does not matter: the server has shown that it owns the key.
    """
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.check_hostname = False
    made.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    made.load_verify_locations(cadata=certificate)
    return made
