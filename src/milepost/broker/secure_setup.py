"""What `milepost serve --secure` makes beside a data directory, once: all that a client and a broker on one machine need.

    DATA.security/authority.pem       whom clients trust
    DATA.security/broker.pem          the broker's key and certificate
    DATA.security/client.properties   the properties of a client, with the password of `admin`, who may do everything

Nobody but their owner may read them. What is there is used again; without these files others are made, and `admin` gets another password.
"""

from __future__ import annotations

import datetime
import os
import secrets

from milepost.broker.stored_users import store_password
from milepost.errors import InvalidConfiguration
from milepost.files import Disk, make_directories, write_file

HOSTS = ("localhost", "127.0.0.1")
ADMIN = "admin"
MECHANISM = "SCRAM-SHA-512"
CLIENT = """\
security.protocol=SASL_SSL
ssl.truststore.type=PEM
ssl.truststore.location={authority}
sasl.mechanism={mechanism}
sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required username="{user}" password="{password}";
"""


def secure_setup(data: str, port: int) -> tuple[dict[str, str], str]:
    """The properties of the broker, and where those of a client are."""
    directory = os.path.abspath(f"{data.rstrip('/')}.security")
    authority, key_store, client = (f"{directory}/{name}" for name in ("authority.pem", "broker.pem", "client.properties"))
    disk = Disk()
    if not all(map(disk.exists, (authority, key_store, client))):
        try:
            from milepost.security.self_made import make_certificates
        except ImportError:
            raise InvalidConfiguration("--secure needs the library cryptography: pip install 'milepost[security]'.") from None
        made = make_certificates(HOSTS, datetime.datetime.now(datetime.UTC))
        password = secrets.token_urlsafe()
        make_directories(disk, directory)
        store_password(data, ADMIN, password, [MECHANISM], 4096)
        text = CLIENT.format(authority=authority, mechanism=MECHANISM, user=ADMIN, password=password)
        for path, content in ((authority, made.authority), (key_store, made.key_store), (client, text.encode())):
            write_file(disk, path, b"")
            disk.restrict(path)
            write_file(disk, path, content, sync=True)
    properties = {
        "listeners": f"SASL_SSL://127.0.0.1:{port}",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": key_store,
        "sasl.enabled.mechanisms": MECHANISM,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:{ADMIN}",
    }
    return properties, client
