"""A cluster of one broker, without ZooKeeper: what it must remember lies beside its logs (`change_log`).

The snapshot, `milepost.cluster.json`:

    {"version": 2, "generation": 7,
     "topics": {"page_visits": {"id": "22 characters of base64", "partitions": 5, "config": {"retention.ms": "-1"}}},
     "leaving": {"old_visits": "id"},               deleted topics some of whose directories may still be there
     "brokers": {"": {...}, "0": {...}},            settings of all brokers, and of this one
     "groups": {"readers": {"consumer.session.timeout.ms": "50000"}},
     "quotas": [{"entity": {"user": null}, "values": {"producer_byte_rate": 1000.0}}],
     "users": {"alice": {"SCRAM-SHA-256": "salt=...,stored_key=...,server_key=...,iterations=4096"}},
     "acls": [[2, "visits", 3, "User:alice", "*", 3, 3]],     resource type, name, pattern type, principal, host, operation, permission
     "features": {"epoch": 1, "levels": {"transaction.version": 1}},     levels that were ever moved; the others are at their first
     "next_producer_id": 1000}

A change has one key, which says what it is, and takes the place of what was there:

    {"topic": name, "id": .., "partitions": .., "config": ..}    a new topic, or one that is leaving and does not
    {"partitions": name, "to": total}
    {"config": name, "to": {...}}
    {"leaving": name}                                            a topic that is deleted, and whose directories are about to go
    {"gone": name}                                               they went
    {"broker": name, "to": {...}}, {"group": name, "to": {...}}
    {"quotas": {"user": null}, "to": {...}}                      of one entity; without values there are none any more
    {"user": name, "to": {...}}                                  what proves a password, by mechanism; without any there is no such user
    {"acl": [...], "is": true}                                   a rule that there is from now on, or is not
    {"features": {...}}, {"next_producer_id": n}

A change is durable before it is in force, and in force before it is answered. The directories of a topic are made after the change that
makes it, and go after the one that deletes it: a start makes those that are missing, and takes away those that are left.

Topics that are found on disk but not written down (a directory that Kafka left behind) are taken in as they are: the id from
`partition.metadata`, the partitions from the directory names.

A broker that changes nothing in its directories has `UnwrittenChanges`: its topics are those that are found, each with what
`written_topics` says of it.
"""

from __future__ import annotations

import json
import logging
import random
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from milepost.clock import SystemClock
from milepost.cluster.change_log import VERSION, Change, ChangeLog
from milepost.cluster.view import ClusterView, TopicState
from milepost.errors import InvalidConfiguration, KafkaStorage, MilepostError
from milepost.log.directory.partition_metadata import random_topic_id, topic_id_bytes
from milepost.log.maintenance.scheduler import Scheduler, WorkQueue
from milepost.security.scram import as_text, credentials_from
from milepost.topic_partition import TopicPartition

if TYPE_CHECKING:
    from milepost.security.acl_index import AclIndex
    from milepost.security.acls import AclBinding

logger = logging.getLogger("milepost.cluster")

PRODUCER_ID_BLOCK = 1000
SMALLEST_SNAPSHOT_AFTER = 1 << 20
"""Bytes of changes. Fewer are read faster than a snapshot is written."""
# Settings of a topic whose own are not known: nothing is thrown away.
KEPT = {"retention.ms": "-1", "retention.bytes": "-1"}

ACL_ROW = (int, str, int, str, str, int, int)

Subscribe = Callable[[Callable[[], object]], object]


class KnownTopic(NamedTuple):
    """What is known of a topic before its partitions are found."""

    configs: Mapping[str, str] = KEPT
    topic_id: str | None = None
    partitions: int = 0


UNKNOWN = KnownTopic()


class SoloCluster(ClusterView):
    def __init__(
        self,
        changes: ChangeLog,
        rng: random.Random,
        cluster_id: str,
        node_id: int,
        scheduler: Scheduler | None = None,
    ):
        super().__init__(cluster_id, node_id)
        self.rng = rng
        self._changes = changes
        self._scheduler = scheduler or Scheduler(SystemClock())
        self._quotas: dict[tuple[tuple[str, str | None], ...], dict[str, Any]] = {}
        self._acls: dict[tuple[Any, ...], None] = {}
        self.acls: AclIndex | None = None
        """The same for an authorizer, once it has asked for it."""
        self._unfinished = 0
        self._is_writing_snapshot = False
        self._next_producer_id = 0
        self._producer_ids_left = 0
        self._load()

    # Remembering.

    def _load(self) -> None:
        content, changes = self._changes.read()
        try:
            if content is not None:
                self._take_snapshot(content)
            self._take_all(changes)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise self._changes.damaged(error) from error

    def _take_snapshot(self, content: dict[str, Any]) -> None:
        for name, topic in content["topics"].items():
            self._remember(name, topic["id"], int(topic["partitions"]), dict(topic["config"]))
        self.being_deleted = dict(content.get("leaving", {}))
        self.broker_configs = {str(name): dict(configs) for name, configs in content["brokers"].items()}
        self.group_configs = {str(name): dict(configs) for name, configs in content.get("groups", {}).items()}
        self._quotas = {entity_key(entry["entity"]): entry for entry in content["quotas"]}
        self.client_quotas = list(self._quotas.values())
        self.scram_users = {str(name): credentials_from(known) for name, known in content.get("users", {}).items()}
        self._acls = {acl_row(each): None for each in content.get("acls", ())}
        self._take_features(content.get("features", {"epoch": 0, "levels": {}}))
        self._next_producer_id = int(content["next_producer_id"])

    def _take_features(self, features: dict[str, Any]) -> None:
        self.features_epoch = int(features["epoch"])
        self.feature_levels = {str(name): int(level) for name, level in features["levels"].items()}

    def _take_all(self, changes: list[Change]) -> None:
        for change in changes:
            self._take(change)
        self.change_count += len(changes)
        if any("quotas" in change for change in changes):
            self.client_quotas = list(self._quotas.values())

    def _take(self, change: Change) -> None:
        match change:
            case {"topic": name}:
                self.being_deleted.pop(name, None)
                self._remember(name, change["id"], change["partitions"], change["config"])
            case {"partitions": name}:
                self.topics[name].partitions = change["to"]
            case {"config": name}:
                self.topics[name].configs = change["to"]
            case {"leaving": name}:
                self.being_deleted[name] = self.topics[name].topic_id_text
                self._remove(self.topics[name])
            case {"gone": name}:
                del self.being_deleted[name]
            case {"broker": name}:
                self.broker_configs = {**self.broker_configs, name: change["to"]}
            case {"group": name}:
                self.group_configs[name] = change["to"]
                if not change["to"]:
                    del self.group_configs[name]
            case {"quotas": entity}:
                self._quotas[entity_key(entity)] = {"entity": entity, "values": change["to"]}
                if not change["to"]:
                    del self._quotas[entity_key(entity)]
            case {"user": user}:
                self.scram_users[user] = credentials_from(change["to"])
                if not self.scram_users[user]:
                    del self.scram_users[user]
            case {"acl": row}:
                self._take_acl(acl_row(row), is_there=change["is"])
            case {"features": features}:
                self._take_features(features)
            case {"next_producer_id": producer_id}:
                self._next_producer_id = producer_id
            case _:
                raise KeyError(f"{json.dumps(change)[:80]} is no change that is known here")

    def _take_acl(self, row: tuple[Any, ...], *, is_there: bool) -> None:
        if is_there:
            self._acls[row] = None
        else:
            self._acls.pop(row, None)
        if self.acls is not None:
            (self.acls.add if is_there else self.acls.remove)(binding_of(row))

    def index_acls(self) -> AclIndex:
        """Have the rules in the form in which they decide, from now on. What makes no sense ends the start: it may be a denial."""
        from milepost.security.acl_index import AclIndex  # of brokers that have an authorizer

        try:
            self.acls = AclIndex(map(binding_of, self._acls))
        except MilepostError as error:
            raise InvalidConfiguration(
                f"{self._changes.path}: an ACL that is stored cannot be understood ({error}); restore the file, or delete the ACL"
            ) from error
        return self.acls

    def _remember(self, name: str, topic_id: str, partitions: int, configs: Mapping[str, str]) -> TopicState:
        topic = TopicState(name, topic_id_bytes(topic_id, name), topic_id, partitions, dict(configs))
        self._add(topic)
        return topic

    def save(self, changes: list[Change]) -> None:
        """Changes that are in force when this returns. Those that cannot be written are not made: a restart would undo them."""
        self.wait_until_saved()
        if changes:
            self._changed(changes, self._attempt(changes))

    def saving(self, changes: list[Change]) -> Generator[Subscribe, None, None]:
        """The same in the manner of `broker/slices`: only the request that makes the changes waits for the disk. They are made also if the
        request that wanted them ends meanwhile."""
        if not changes:
            return
        outcome: list[KafkaStorage] = []

        def subscribe(resume: Callable[[], object]) -> None:
            def ended(error: OSError | None) -> None:
                self._unfinished -= 1
                try:
                    self._changed(changes, error)
                except KafkaStorage as refusal:
                    outcome.append(refusal)
                finally:
                    resume()

            self._unfinished += 1
            self._scheduler.in_background(partial(self._attempt, changes), ended, ended)

        yield subscribe
        if outcome:
            raise outcome[0]

    def wait_until_saved(self) -> None:
        """Wait for changes that are being written: what they change is in force after it."""
        self._scheduler.wait(lambda: not self._unfinished)

    def _attempt(self, changes: list[Change]) -> OSError | None:
        try:
            self._changes.append(changes)
        except OSError as error:
            return error
        return None

    def _changed(self, changes: list[Change], error: OSError | None) -> None:
        if error is not None:
            raise KafkaStorage(f"{self._changes.path}: a change cannot be written ({error}); nothing has been changed") from error
        self._take_all(changes)
        log = self._changes
        if log.bytes_since_snapshot > max(SMALLEST_SNAPSHOT_AFTER, 2 * log.snapshot_bytes):
            self._write_snapshot()

    # Snapshots.

    def _write_snapshot(self) -> None:
        """Begin with one, unless there is something on its way that it would have to have."""
        if self._unfinished or self._is_writing_snapshot:
            return
        self._is_writing_snapshot = True
        generation = self._changes.begin_snapshot()
        pieces = self._snapshot_pieces(generation)

        def work() -> int:
            return self._changes.write_snapshot(generation, "".join(pieces).encode())

        def written(size: int) -> None:
            self._is_writing_snapshot = False
            self._changes.snapshot_bytes = size

        def failed(error: OSError) -> None:
            # Nothing is lost: all changes since the last one are still there.
            self._is_writing_snapshot = False
            logger.warning(
                "%s: cannot be replaced: %s; the changes since the last time are kept beside it", self._changes.path, error
            )

        self._scheduler.in_background(work, written, failed, WorkQueue.BULK)

    def _snapshot_pieces(self, generation: int) -> Iterable[str]:
        """The text of a snapshot as everything is now. It is made when it is asked for, a topic at a time, on whatever thread."""
        topics = [(topic.name, topic.topic_id_text, topic.partitions, topic.configs) for topic in self.topics.values()]
        groups = dict(self.group_configs)
        acls = list(self._acls)
        head = {
            "version": VERSION,
            "generation": generation,
            "leaving": dict(self.being_deleted),
            "brokers": self.broker_configs,
            "quotas": self.client_quotas,
            "users": {user: {name: as_text(known) for name, known in each.items()} for user, each in self.scram_users.items()},
            "features": {"epoch": self.features_epoch, "levels": self.feature_levels},
            "next_producer_id": self._next_producer_id,
        }

        def pieces() -> Iterable[str]:
            yield json.dumps(head)[:-1]
            yield ',\n"acls": [' + ",\n".join(map(json.dumps, acls)) + "]"
            for key, entries in (
                ("groups", groups.items()),
                (
                    "topics",
                    ((name, {"id": text, "partitions": count, "config": configs}) for name, text, count, configs in topics),
                ),
            ):
                yield f',\n"{key}": {{'
                separator = "\n"
                for name, content in entries:
                    yield f"{separator}{json.dumps(name)}: {json.dumps(content)}"
                    separator = ",\n"
                yield "}"
            yield "}\n"

        return pieces()

    def close(self) -> None:
        """Leave one file behind, for a start that has nothing to replay, and for readers."""
        self.wait_until_saved()
        if self._changes.bytes_since_snapshot:
            self._write_snapshot()

    # Topics.

    def adopt(self, found: Iterable[tuple[TopicPartition, str | None]], known: Mapping[str, KnownTopic]) -> list[str]:
        """Adopt partitions on disk, and the ids in their directories, whose topics this cluster has not; the names of the topics."""
        strangers: dict[str, KnownTopic] = {}
        for partition, topic_id in found:
            if partition.topic not in self.topics:
                configs, known_id, most = strangers.get(partition.topic) or known.get(partition.topic, UNKNOWN)
                strangers[partition.topic] = KnownTopic(configs, known_id or topic_id, max(most, partition.partition + 1))
        self.save([self.new_topic(name, each.partitions, each.configs, each.topic_id) for name, each in strangers.items()])
        return list(strangers)

    def new_topic(self, name: str, partitions: int, configs: Mapping[str, str], topic_id: str | None = None) -> Change:
        return {
            "topic": name,
            "id": topic_id or random_topic_id(self.rng),
            "partitions": partitions,
            "config": dict(configs),
        }

    def keep(self, change: Change) -> None:
        """Have a topic that was leaving and could not go, though that cannot be written down: it is tried again at the next start."""
        self._take(change)

    # Quotas, features and producer ids.

    def quotas_of(self, entity: Mapping[str, str | None]) -> Mapping[str, float]:
        entry = self._quotas.get(entity_key(entity))
        return entry["values"] if entry else {}

    def update_features(self, levels: Mapping[str, int]) -> None:
        self.save([{"features": {"epoch": self.features_epoch + 1, "levels": {**self.feature_levels, **levels}}}])

    def allocate_producer_id(self) -> int:
        """A new producer id. A block of them is claimed at a time, so that a crash loses ids and never repeats one."""
        if not self._producer_ids_left:
            self.save([{"next_producer_id": self._next_producer_id + PRODUCER_ID_BLOCK}])
            self._producer_ids_left = PRODUCER_ID_BLOCK
        self._producer_ids_left -= 1
        return self._next_producer_id - self._producer_ids_left - 1

    def skip_producer_ids(self, known: int) -> None:
        """Give out no id up to `known`: it is in use."""
        if known >= self._next_producer_id:
            self.save([{"next_producer_id": (known // PRODUCER_ID_BLOCK + 1) * PRODUCER_ID_BLOCK}])
            self._producer_ids_left = 0


def acl_row(row: Sequence[Any]) -> tuple[Any, ...]:
    """One as it is written down."""
    kinds = tuple(map(type, row))
    if kinds != ACL_ROW:
        raise TypeError(f"{json.dumps(row)[:80]} is no ACL")
    return tuple(row)


def binding_of(row: tuple[Any, ...]) -> AclBinding:
    from milepost.security.acls import from_row

    return from_row(row)


def entity_key(entity: Mapping[str, str | None]) -> tuple[tuple[str, str | None], ...]:
    return tuple(sorted(entity.items()))
