"""An authority of one's own and a certificate that it has signed, for a laptop: nobody else trusts it.

The authority's key is forgotten as soon as the certificate is signed: whoever finds the files can sign no other.
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

DAYS = 365
EARLIER = datetime.timedelta(days=1)  # for clocks that are behind


class SelfMade(NamedTuple):
    authority: bytes
    """The certificate that clients are to trust."""
    key_store: bytes
    """The broker's key and certificate."""


def make_certificates(hosts: Sequence[str], now: datetime.datetime) -> SelfMade:
    """For a broker that is reached by these names and addresses."""
    authority_key, broker_key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    authority = named("milepost, an authority of this machine")
    end = now + datetime.timedelta(days=DAYS)

    def certificate(subject: x509.Name, key: ec.EllipticCurvePrivateKey, extension: x509.ExtensionType) -> bytes:
        builder = x509.CertificateBuilder().subject_name(subject).issuer_name(authority).public_key(key.public_key())
        builder = builder.serial_number(x509.random_serial_number()).not_valid_before(now - EARLIER).not_valid_after(end)
        signed = builder.add_extension(extension, critical=True).sign(authority_key, hashes.SHA256())
        return signed.public_bytes(Encoding.PEM)

    own = certificate(authority, authority_key, x509.BasicConstraints(ca=True, path_length=0))
    brokers = certificate(named(hosts[0]), broker_key, x509.SubjectAlternativeName([name_of(host) for host in hosts]))
    key = broker_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return SelfMade(own, key + brokers)


def named(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def name_of(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
