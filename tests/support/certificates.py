# SPDX-License-Identifier: Apache-2.0
"""Creates a certificate authority for tests, and certificates that it signs."""

import ipaddress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID


@dataclass(frozen=True)
class Identity:
    """The files of a key and its certificate: each in its own file, and both in one file."""

    key: Path
    certificate: Path
    both: Path


class Authority:
    """Signs certificates for this machine, which are valid for a day."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._name = _named(name)
        self._key = ec.generate_private_key(ec.SECP256R1())
        public = self._key.public_key()
        made = _certificate(self._name, self._name, public).add_extension(
            x509.BasicConstraints(ca=True, path_length=0), critical=True
        )
        identifier = x509.SubjectKeyIdentifier.from_public_key(public)
        made = made.add_extension(identifier, critical=False).add_extension(
            _usage(signs_certificates=True), critical=True
        )
        self.certificate = folder / f"{name}.pem"
        self.certificate.write_bytes(made.sign(self._key, SHA256()).public_bytes(Encoding.PEM))

    def issue(self, name: str) -> Identity:
        """Return a certificate for 127.0.0.1 and localhost, for a server or a client."""
        key = ec.generate_private_key(ec.SECP256R1())
        hosts = [
            x509.DNSName("localhost"),
            x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
        ]
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        signer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        made = (
            _certificate(_named(name), self._name, key.public_key())
            .add_extension(x509.SubjectAlternativeName(hosts), critical=False)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(signer, critical=False)
            .add_extension(_usage(signs_certificates=False), critical=True)
        )
        pem = made.sign(self._key, SHA256()).public_bytes(Encoding.PEM)
        secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        return Identity(
            self._write(f"{name}.key", secret),
            self._write(f"{name}.pem", pem),
            self._write(f"{name}-both.pem", secret + pem),
        )

    def _write(self, name: str, content: bytes) -> Path:
        path = self._folder / name
        path.touch(mode=0o600)
        path.write_bytes(content)
        return path


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _certificate(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )
