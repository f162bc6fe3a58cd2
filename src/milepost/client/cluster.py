"""A cluster as a client sees it: which broker to ask, and what to do when it is the wrong one or gone.

    on_any           what every broker can answer
    on_controller    creating and deleting topics, settings
    on_coordinator   a group's or a transactional id's affairs
    on_node          what only one broker knows about itself
    ask_leaders      records and offsets: each partition at its leader, all leaders at once

Each runs a piece of work with a connection to that broker. When the work fails in a way that may pass (see `retrying`), what was known
about the cluster is asked for again and the work is run once more, at whoever is responsible then. So work must be safe to repeat.

When no bootstrap server answers in the first place, that is told at once: most likely the address is wrong.

Requests that name topics by name are used throughout (Produce 12, Fetch 12, OffsetCommit 9 at most): they are what every broker from
Kafka 2.1 on answers, with or without topic ids. Not for use by several threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Any, TypeVar

from milepost.client.addresses import Address, parse_addresses
from milepost.client.connection import CLIENT_ID, DEFAULT_TIMEOUT, Connection
from milepost.client.metadata import NO_LEADER, ClusterInfo, Node, TopicInfo, from_response
from milepost.client.retrying import Retries, failed, is_worth_another_try
from milepost.client.security import PLAIN_TEXT, ClientSecurity
from milepost.errors import BrokerUnavailable, MalformedMessage, MilepostError, RequestFailed
from milepost.protocol.connection import DEFAULT_MAX_SIZE
from milepost.protocol.error_codes import RETRIABLE, ErrorCode
from milepost.protocol.message import Message
from milepost.protocol.messages import FindCoordinatorRequest, FindCoordinatorResponse, MetadataRequest
from milepost.topic_partition import TopicPartition

T = TypeVar("T")

GROUP, TRANSACTION = 0, 1
# A topic that was just created takes a moment to be known everywhere; one that was mistyped should not take long to be told.
UNKNOWN_TOPIC_ATTEMPTS = 3
SHOWN_TOPICS = 20


class Cluster:
    def __init__(
        self,
        bootstrap_servers: str | Sequence[str],
        *,
        client_id: str = CLIENT_ID,
        timeout: float = DEFAULT_TIMEOUT,
        max_size: int = DEFAULT_MAX_SIZE,
        retries: Retries | None = None,
        security: ClientSecurity = PLAIN_TEXT,
    ):
        self.bootstrap = parse_addresses(bootstrap_servers)
        self.client_id = client_id
        self.timeout = timeout
        self.max_size = max_size
        self.security = security
        self.retries = retries or Retries(timeout=timeout)
        self.info: ClusterInfo | None = None
        """What was last heard; its topics are those that were asked for so far."""
        self._connections: dict[Address, Connection] = {}
        self._coordinators: dict[tuple[int, str], Node] = {}

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()

    # Whom to ask.

    def on_any(self, work: Callable[[Connection], T]) -> T:
        return self._retry(lambda: work(self._any_connection()))

    def on_controller(self, work: Callable[[Connection], T]) -> T:
        def at_controller() -> T:
            info = self.info
            if info is None or info.controller_id not in info.nodes:
                info = self._ask_metadata(())
            controller = info.nodes.get(info.controller_id)
            # Without ZooKeeper every broker passes such requests on, so one that names no controller is asked itself.
            return work(self._any_connection() if controller is None else self.connection(controller.address))

        return self._retry(at_controller)

    def on_coordinator(self, key: str, work: Callable[[Connection], T], kind: int = GROUP) -> T:
        return self._retry(lambda: work(self.connection(self._coordinator(key, kind).address)))

    def on_node(self, node_id: int, work: Callable[[Connection], T]) -> T:
        return self._retry(lambda: work(self.connection(self._node(node_id).address)))

    def ask_leaders(
        self,
        partitions: Iterable[TopicPartition],
        build: Callable[[list[TopicPartition]], Message],
        read: Callable[[Any], Iterable[tuple[TopicPartition, T | MilepostError]]],
        *,
        highest: int | None = None,
    ) -> dict[TopicPartition, T]:
        """What `read` finds in the answers to what `build` makes for each leader. The first error that does not pass is raised."""
        left = list(partitions)
        done: dict[TopicPartition, T] = {}
        for is_last in self.retries.rounds():
            for partition, result in self._ask_leaders_once(left, build, read, highest).items():
                if not isinstance(result, MilepostError):
                    done[partition] = result
                elif is_last or not is_worth_another_try(result):
                    raise result
            left = [partition for partition in left if partition not in done]
            if not left:
                break
            self.forget()
        return done

    def _ask_leaders_once(
        self,
        partitions: list[TopicPartition],
        build: Callable[[list[TopicPartition]], Message],
        read: Callable[[Any], Iterable[tuple[TopicPartition, T | MilepostError]]],
        highest: int | None,
    ) -> dict[TopicPartition, T | MilepostError]:
        by_leader, results = self.by_leader(partitions)
        answers: dict[TopicPartition, T | MilepostError] = dict(results)
        asked: list[tuple[Connection, list[TopicPartition]]] = []
        try:
            for node, group in by_leader.items():
                try:
                    connection = self.connection(node.address)
                    connection.send(build(group), highest=highest)
                    asked.append((connection, group))
                except BrokerUnavailable as error:
                    answers.update(dict.fromkeys(group, error))
            for connection, group in asked:
                try:
                    asked_for = set(group)
                    answers.update(
                        (partition, result) for partition, result in read(connection.receive()) if partition in asked_for
                    )
                except BrokerUnavailable as error:
                    answers.update(dict.fromkeys(group, error))
                for partition in group:
                    left_out = MalformedMessage(f"{connection.address} left {partition} out of its answer")
                    answers.setdefault(partition, left_out)
        except BaseException:
            # An answer that nobody read would be taken for the answer to the next request.
            for connection, _ in asked:
                connection.close()
            raise
        return answers

    # What is known.

    def refresh(self, topics: Iterable[str] | None, *, may_create: bool = False) -> ClusterInfo:
        """Ask for the brokers and these topics, all of them for None. What was known of other topics stays known."""
        return self._retry(lambda: self._ask_metadata(topics, may_create=may_create))

    def topic(self, name: str, *, may_create: bool = False) -> TopicInfo:
        """A topic with its partitions; RequestFailed when there is none, also after a few more tries."""
        found = None if self.info is None else self.info.topics.get(name)
        if found is not None and not found.error_code:
            return found
        code = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        for _ in self.retries.rounds(None if may_create else UNKNOWN_TOPIC_ATTEMPTS):
            found = self.refresh([name], may_create=may_create).topics.get(name)
            if found is not None and not found.error_code:
                return found
            code = code if found is None else found.error_code
            if code not in RETRIABLE:
                break
        raise failed(f"topic {name}", code, self._topics_there() if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION else None)

    def _topics_there(self) -> str | None:
        """For somebody who mistyped a name."""
        try:
            topics = self.refresh(None).topics.values()
        except MilepostError:
            return None
        names = sorted(topic.name for topic in topics if not topic.is_internal and not topic.error_code)
        if not names:
            return "there are no topics"
        more = f" and {len(names) - SHOWN_TOPICS} more" if len(names) > SHOWN_TOPICS else ""
        there = "topic there is" if len(names) == 1 else "topics there are"
        return f"the {there} {', '.join(names[:SHOWN_TOPICS])}{more}"

    def by_leader(
        self, partitions: Iterable[TopicPartition]
    ) -> tuple[dict[Node, list[TopicPartition]], dict[TopicPartition, MilepostError]]:
        """The partitions by the broker that leads them, and why some have none. Topics not known yet are asked for together."""
        partitions = list(partitions)
        known = {} if self.info is None else self.info.topics
        unknown = {partition.topic for partition in partitions} - known.keys()
        info = self.info
        if info is None or unknown:
            try:
                info = self._ask_metadata(unknown)
            except BrokerUnavailable as error:
                if self.info is None:
                    raise
                return {}, dict.fromkeys(partitions, error)
        leaders: dict[Node, list[TopicPartition]] = {}
        leaderless: dict[TopicPartition, MilepostError] = {}
        for partition in partitions:
            leader = _leader_in(info, partition)
            if isinstance(leader, Node):
                leaders.setdefault(leader, []).append(partition)
            else:
                leaderless[partition] = leader
        return leaders, leaderless

    def node(self, node_id: int) -> Node:
        return self._retry(lambda: self._node(node_id))

    # The same, asked once.

    def _ask_metadata(self, topics: Iterable[str] | None, *, may_create: bool = False) -> ClusterInfo:
        connection = self._any_connection()
        request = MetadataRequest(
            topics=None if topics is None else [MetadataRequest.Topic(name=name) for name in sorted(set(topics))]
        )
        if connection.version_of("Metadata") >= 4:
            request.allow_auto_topic_creation = may_create
        heard = from_response(connection.ask(request))
        known = {} if topics is None or self.info is None else self.info.topics
        self.info = ClusterInfo(heard.cluster_id, heard.controller_id, heard.nodes, {**known, **heard.topics})
        return self.info

    def _node(self, node_id: int) -> Node:
        info = self.info
        if info is None or node_id not in info.nodes:
            info = self._ask_metadata(())
        if node_id not in info.nodes:
            known = ", ".join(str(known) for known in sorted(info.nodes))
            raise RequestFailed(f"there is no broker {node_id}; the cluster has {known}", ErrorCode.BROKER_ID_NOT_REGISTERED)
        return info.nodes[node_id]

    def _coordinator(self, key: str, kind: int) -> Node:
        known = self._coordinators.get((kind, key))
        if known is None:
            known = self._coordinators[kind, key] = self._find_coordinator(key, kind)
        return known

    def _find_coordinator(self, key: str, kind: int) -> Node:
        connection = self._any_connection()
        if connection.version_of("FindCoordinator") >= 4:
            response = connection.ask(FindCoordinatorRequest(key_type=kind, coordinator_keys=[key]))
            rows: list[FindCoordinatorResponse.Coordinator] = [row for row in response.coordinators if row.key == key]
            found = rows[0] if rows else FindCoordinatorResponse.Coordinator(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
        else:
            found = connection.ask(FindCoordinatorRequest(key=key, key_type=kind))
        if found.error_code:
            raise failed(f"the coordinator of {key!r}", found.error_code, found.error_message)
        return Node(found.node_id, Address(found.host, found.port))

    # Connections.

    def connection(self, address: Address) -> Connection:
        """The connection to an address that is shared by everything that asks through this cluster."""
        connection = self._connections.get(address)
        if connection is None or not connection.is_open:
            connection = self._connections[address] = self.dial(address)
        return connection

    def dial(self, address: Address) -> Connection:
        """A connection of one's own, for requests that may take long."""
        return Connection(
            address, client_id=self.client_id, timeout=self.timeout, max_size=self.max_size, security=self.security
        )

    def _any_connection(self) -> Connection:
        for connection in self._connections.values():
            if connection.is_open:
                return connection
        known = [] if self.info is None else [node.address for node in self.info.nodes.values()]
        errors: list[str] = []
        for address in dict.fromkeys([*known, *self.bootstrap]):
            try:
                return self.connection(address)
            except BrokerUnavailable as error:
                errors.append(str(error))
        raise BrokerUnavailable("; ".join(errors))

    def _retry(self, work: Callable[[], T]) -> T:
        for is_last in self.retries.rounds():
            try:
                return work()
            except MilepostError as error:
                never_connected = self.info is None and isinstance(error, BrokerUnavailable)
                # An administrator's topic that is not there was mistyped; to wait for it would only be slow.
                is_missing = error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                if is_last or never_connected or is_missing or not is_worth_another_try(error):
                    raise
                self.forget()
        raise AssertionError("the last round returns or raises")

    def forget(self) -> None:
        """Something moved: leaders and coordinators are asked for again, the brokers' addresses stay known until then."""
        self._coordinators.clear()
        if self.info is not None:
            self.info = ClusterInfo(self.info.cluster_id, NO_LEADER, self.info.nodes, {})


def _leader_in(info: ClusterInfo, partition: TopicPartition) -> Node | MilepostError:
    """The broker that leads a partition, or why there is none."""
    topic = info.topics.get(partition.topic)
    if topic is None or topic.error_code:
        return failed(f"topic {partition.topic}", topic.error_code if topic else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    found = next((part for part in topic.partitions if part.partition == partition.partition), None)
    if found is None:
        return RequestFailed(
            f"there is no partition {partition}; the topic has {len(topic.partitions)}", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        )
    return info.nodes.get(found.leader_id) or RequestFailed(f"{partition} has no leader now", ErrorCode.LEADER_NOT_AVAILABLE)
