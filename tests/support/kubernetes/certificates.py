"""The certificate authority of a test cluster: certificates of the servers and of users, and the key of service accounts."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFETIME = timedelta(days=1)

CLOCK_SKEW = timedelta(hours=1)

ISSUER_KEY = x509.ObjectIdentifier("2.5.29.35")

ISSUER_KEY_PREFIX = b"\x30\x16\x80\x14"
"""Precedes the 20 bytes of the identifier: a sequence with one element that has the tag 0."""


@dataclass(frozen=True)
class KeyPair:
    """Files of a certificate and of its private key."""

    certificate: Path
    key: Path


class ClusterCertificates:
    """Signs the certificates of one cluster.

    Attributes:
        ca: the certificate of the authority, which clients trust.
        service_account_key: the private key that signs the tokens of service accounts.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700)
        self._folder = folder
        self._key = _new_key()
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test-cluster")])
        self.ca = folder / "ca.crt"
        self.ca.write_bytes(self._self_signed().public_bytes(serialization.Encoding.PEM))
        self.service_account_key = folder / "service-accounts.key"
        _write_key(self.service_account_key, _new_key())

    def server(self, name: str, addresses: Iterable[str], host_names: Iterable[str]) -> KeyPair:
        """Create the certificate of a server that clients reach at these addresses and names."""
        alternatives: list[x509.GeneralName] = [x509.IPAddress(ipaddress.ip_address(address)) for address in addresses]
        alternatives += [x509.DNSName(host) for host in host_names]
        extension = x509.SubjectAlternativeName(alternatives)
        return self._signed(name, (), ExtendedKeyUsageOID.SERVER_AUTH, datetime.now(UTC) + LIFETIME, [extension])

    def user(self, name: str, groups: Sequence[str] = (), *, expires_in: timedelta = LIFETIME) -> KeyPair:
        """Create a client certificate of a user in these groups. A negative `expires_in` creates an expired certificate."""
        return self._signed(name, groups, ExtendedKeyUsageOID.CLIENT_AUTH, datetime.now(UTC) + expires_in, [])

    def _self_signed(self) -> x509.Certificate:
        usage = x509.KeyUsage(
            digital_signature=True, key_cert_sign=True, crl_sign=True, content_commitment=False, key_encipherment=False,
            data_encipherment=False, key_agreement=False, encipher_only=False, decipher_only=False,
        )  # fmt: skip
        return (
            self._builder(self._name, self._key, datetime.now(UTC) + LIFETIME)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )

    def _signed(
        self,
        name: str,
        groups: Sequence[str],
        usage: x509.ObjectIdentifier,
        expires: datetime,
        extensions: Iterable[x509.ExtensionType],
    ) -> KeyPair:
        key = _new_key()
        subject = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        subject.append(x509.NameAttribute(NameOID.COMMON_NAME, name))
        builder = self._builder(x509.Name(subject), key, expires)
        for extension in (x509.ExtendedKeyUsage([usage]), self._issuer(), *extensions):
            builder = builder.add_extension(extension, critical=False)
        return self._write(name, builder.sign(self._key, hashes.SHA256()), key)

    def _issuer(self) -> x509.ExtensionType:
        """Return the extension that names the key of the authority. Python 3.13 requires it."""
        identifier = x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()).digest
        return x509.UnrecognizedExtension(ISSUER_KEY, ISSUER_KEY_PREFIX + identifier)

    def _builder(self, subject: x509.Name, key: rsa.RSAPrivateKey, expires: datetime) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(min(datetime.now(UTC), expires) - CLOCK_SKEW)
            .not_valid_after(expires)
        )

    def _write(self, name: str, certificate: x509.Certificate, key: rsa.RSAPrivateKey) -> KeyPair:
        stem = f"{name.replace(':', '-')}-{certificate.serial_number:x}"
        pair = KeyPair(self._folder / f"{stem}.crt", self._folder / f"{stem}.key")
        pair.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        _write_key(pair.key, key)
        return pair


def _new_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def _write_key(file: Path, key: rsa.RSAPrivateKey) -> None:
    file.touch(mode=0o600)
    file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
        )
    )
