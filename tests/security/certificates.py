"""A certificate authority for tests, and what it signs."""

from __future__ import annotations

import datetime
import ipaddress
from functools import cache
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509.oid import NameOID

DAY = datetime.timedelta(days=1)


class Authority:
    def __init__(self, name: str = "an authority of tests"):
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.certificate = self._signed(self.name, self.key, [x509.BasicConstraints(ca=True, path_length=None)], 30)

    @property
    def pem(self) -> str:
        return self.certificate.public_bytes(Encoding.PEM).decode()

    def _signed(self, subject, key, extensions, days: int) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        builder = x509.CertificateBuilder().subject_name(subject).issuer_name(self.name).public_key(key.public_key())
        builder = (
            builder.serial_number(x509.random_serial_number()).not_valid_before(now - 60 * DAY).not_valid_after(now + days * DAY)
        )
        for extension in extensions:
            builder = builder.add_extension(extension, critical=False)
        return builder.sign(self.key, hashes.SHA256())

    def sign(self, *names: tuple[str, str], days: int = 30) -> Identity:
        """For `("CN", "alice"), ("O", "example")` and so on; a broker of loopback is in it too."""
        key = ec.generate_private_key(ec.SECP256R1())
        oids = {
            "CN": NameOID.COMMON_NAME,
            "O": NameOID.ORGANIZATION_NAME,
            "OU": NameOID.ORGANIZATIONAL_UNIT_NAME,
            "C": NameOID.COUNTRY_NAME,
            "EMAIL": NameOID.EMAIL_ADDRESS,
        }
        subject = x509.Name([x509.NameAttribute(oids[kind], value) for kind, value in names])
        hosts = x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
        return Identity(key, self._signed(subject, key, [hosts], days))


class Identity:
    """A key, and the certificate that goes with it."""

    def __init__(self, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate):
        self.key = key
        self.certificate = certificate

    @property
    def certificate_pem(self) -> str:
        return self.certificate.public_bytes(Encoding.PEM).decode()

    def key_pem(self, password: str | None = None) -> str:
        encryption = NoEncryption() if password is None else BestAvailableEncryption(password.encode())
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption).decode()

    def pkcs12(self, password: str) -> bytes:
        encryption = BestAvailableEncryption(password.encode())
        return pkcs12.serialize_key_and_certificates(b"broker", self.key, self.certificate, None, encryption)

    def write(self, path: Path) -> Path:
        """As a PEM key store."""
        path.write_text(self.key_pem() + self.certificate_pem)
        return path


@cache
def authority() -> Authority:
    return Authority()


def tls_settings(directory: Path, **more: str) -> dict[str, str]:
    """Of a broker whose certificate `authority` has signed, and that trusts those that it signs."""
    directory.mkdir(parents=True, exist_ok=True)
    store = authority().sign(("CN", "localhost")).write(directory / "broker.pem")
    trusted = directory / "trusted.pem"
    trusted.write_text(authority().pem)
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(store),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(trusted),
        **more,
    }
