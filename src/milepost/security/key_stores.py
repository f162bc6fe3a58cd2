"""Keys and certificates in the forms that Kafka's users have them, made PEM.

    PEM       as it is, in a file or in the property itself
    PKCS12    a file, read by the library `cryptography`, which comes with the extra `security`
    JKS       a file of Java's own (`java_key_store`), or PKCS12 as Java has written under that name since its version 9
"""

from __future__ import annotations

from milepost.config.security import SecurityConfig
from milepost.errors import InvalidConfiguration
from milepost.files import Disk, read_file
from milepost.frozen_dataclass import frozen_dataclass
from milepost.security.java_key_store import deciphered, is_java_key_store, read_java_key_store

EXTRA = "which needs the library cryptography: pip install 'milepost[security]', or give PEM"


@frozen_dataclass
class KeyStore:
    pem: bytes
    """The key, the certificate that belongs to it, and those that lead to one that others trust."""
    password: str | None


def key_store(config: SecurityConfig) -> KeyStore:
    if config.ssl_keystore_key is not None:
        inline = f"{config.ssl_keystore_key}\n{config.ssl_keystore_certificate_chain}\n"
        return KeyStore(unfolded(inline), config.ssl_key_password)
    content = read_store("ssl.keystore.location", config.ssl_keystore_location)
    if config.ssl_keystore_type == "PEM":
        return KeyStore(content, config.ssl_key_password)
    password = config.ssl_keystore_password or ""
    read = pkcs12_key if config.ssl_keystore_type == "PKCS12" else jks_key
    try:
        return KeyStore(read(content, password, config.ssl_key_password or password), None)
    except ImportError:
        raise InvalidConfiguration(f"ssl.keystore.type: it is {config.ssl_keystore_type}, {EXTRA}.") from None
    except Exception as error:
        raise InvalidConfiguration(unreadable("ssl.keystore", config.ssl_keystore_location, error)) from error


def trusted_certificates(config: SecurityConfig) -> bytes | None:
    """Of those who sign the certificates of clients; None where no trust store was given."""
    if config.ssl_truststore_certificates is not None:
        return unfolded(config.ssl_truststore_certificates)
    if config.ssl_truststore_location is None:
        return None
    content = read_store("ssl.truststore.location", config.ssl_truststore_location)
    if config.ssl_truststore_type == "PEM":
        return content
    read = pkcs12_certificates if config.ssl_truststore_type == "PKCS12" else jks_certificates
    try:
        return read(content, config.ssl_truststore_password or "")
    except ImportError:
        raise InvalidConfiguration(f"ssl.truststore.type: it is {config.ssl_truststore_type}, {EXTRA}.") from None
    except Exception as error:
        raise InvalidConfiguration(unreadable("ssl.truststore", config.ssl_truststore_location, error)) from error


def unreadable(store: str, location: str | None, error: Exception) -> str:
    return f"{store}.location: {location} cannot be read as {store}.type says, with the password given ({error})."


def read_store(name: str, location: str | None) -> bytes:
    disk = Disk()
    try:
        return read_file(disk, disk.resolve(location or ""))  # a secret of Kubernetes is a link
    except OSError as error:
        raise InvalidConfiguration(f"{name}: {location} cannot be read ({error.strerror}).", name) from None


def unfolded(pem: str) -> bytes:
    """In a properties file a PEM stands in one line, with spaces or `\\n` where it had line ends."""
    lines: list[str] = []
    for block in pem.replace("\\n", "\n").split("-----BEGIN ")[1:]:
        label, _, rest = block.partition("-----")
        body = rest.partition("-----END")[0]
        lines += [f"-----BEGIN {label}-----", *body.split(), f"-----END {label}-----"]
    return ("\n".join(lines) + "\n").encode()


def pkcs12_key(content: bytes, password: str, _: str) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, pkcs12

    found = pkcs12.load_pkcs12(content, password.encode())
    if found.key is None or found.cert is None:
        raise ValueError("there is no key with a certificate in it")
    key = found.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    certificates = [found.cert, *found.additional_certs]
    return key + b"".join(each.certificate.public_bytes(Encoding.PEM) for each in certificates)


def pkcs12_certificates(content: bytes, password: str) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, pkcs12

    found = pkcs12.load_pkcs12(content, password.encode())
    certificates = [each for each in (found.cert, *found.additional_certs) if each is not None]
    return b"".join(each.certificate.public_bytes(Encoding.PEM) for each in certificates)


def jks_key(content: bytes, password: str, key_password: str) -> bytes:
    if not is_java_key_store(content):
        return pkcs12_key(content, password, key_password)
    for enciphered, certificates in read_java_key_store(content, password).keys:
        chain = b"".join(as_pem("CERTIFICATE", each) for each in certificates)
        return as_pem("PRIVATE KEY", deciphered(enciphered, key_password)) + chain
    raise ValueError("there is no key in it")


def jks_certificates(content: bytes, password: str) -> bytes:
    if not is_java_key_store(content):
        return pkcs12_certificates(content, password)
    return b"".join(as_pem("CERTIFICATE", each) for each in read_java_key_store(content, password).certificates)


def as_pem(label: str, der: bytes) -> bytes:
    from base64 import b64encode

    text = b64encode(der).decode()
    lines = [text[at : at + 64] for at in range(0, len(text), 64)]
    return "\n".join([f"-----BEGIN {label}-----", *lines, f"-----END {label}-----", ""]).encode()
