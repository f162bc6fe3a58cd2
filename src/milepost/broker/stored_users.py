"""The users of a broker that does not run: the first one of all has to come from somewhere."""

from __future__ import annotations

import random
import secrets
from collections.abc import Iterable

from milepost.cluster.change_log import ChangeLog
from milepost.cluster.solo import SoloCluster
from milepost.files import Disk, make_directories
from milepost.log.directory.directory_lock import DirectoryLock
from milepost.security.scram import as_text, credential_of, salted

SALT_BYTES = 20


def store_password(directory: str, user: str, password: str, mechanisms: Iterable[str], iterations: int) -> None:
    """In the data directory of a broker that is alone, its first one. LockedDirectory where a broker has it open."""
    disk = Disk()
    make_directories(disk, directory)
    lock = DirectoryLock(directory, disk)
    try:
        cluster = SoloCluster(ChangeLog(directory, disk), random.Random(), "", 0)
        known = {mechanism: as_text(each) for mechanism, each in cluster.scram_users.get(user, {}).items()}
        for mechanism in mechanisms:
            salt = secrets.token_bytes(SALT_BYTES)
            secret = salted(mechanism, password.encode(), salt, iterations)
            known[mechanism] = as_text(credential_of(mechanism, secret, salt, iterations))
        cluster.save([{"user": user, "to": known}])
        cluster.close()
    finally:
        lock.release()
