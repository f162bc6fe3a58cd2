"""Guards of requests that ask for more than one kind of thing, or whose answers show what a client may not see.

What may not be described is answered as denied, whether it is there or not; asked for everything there is, it is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from milepost.broker.authorized_operations import NOT_ASKED, bit_field
from milepost.broker.authorizer import Access, Denial
from milepost.broker.rights import answers
from milepost.broker.rights.guards import EachElement, Guarded, Proceed, Rights
from milepost.broker.rights.resources import on_cluster, on_group, on_topic, on_transaction
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import (
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatResponse,
    DeleteTopicsResponse,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    FindCoordinatorResponse,
    MetadataRequest,
    MetadataResponse,
    OffsetFetchResponse,
)
from milepost.security.acls import CLUSTER_NAME, Operation, ResourceType

if TYPE_CHECKING:
    from milepost.broker.context import Context

NO_ID = bytes(16)
MANY_COORDINATORS_SINCE = 4
MANY_GROUPS_SINCE = 8
OFFSETS_BY_ID_SINCE = 10
GROUP_KEY, TRANSACTION_KEY = 0, 1
DESCRIBE, READ = Operation.DESCRIBE, Operation.READ


# Records and where they are.


class Produced(EachElement):
    def answer(self, request: Any, response: Any, context: Context) -> Any:
        """Without acknowledgement there is no answer to say it in."""
        if request.acks == 0:
            context.close("a produce request without acknowledgement was denied")
            return None
        return response


class Fetched:
    """A session remembers partitions that its requests do not name, so each partition is asked for when it is read."""

    def handling(self, request: Any, rights: Rights, proceed: Proceed) -> Guarded:
        from milepost.broker.fetch.replica_id import is_follower, refuse_follower  # which needs what needs this

        if is_follower(request):
            if rights.denial((on_cluster(Operation.CLUSTER_ACTION),)) is not None:
                return refuse_follower(request, rights.context.version)
        else:
            rights.context.may_read = partial(may_read, rights)
        return (yield from proceed())


def may_read(rights: Rights, topic: str) -> bool:
    return rights.denial((on_topic(READ, topic),)) is None


class Metadata:
    """Topics that do not exist are made for who may describe and create them."""

    def handling(self, request: MetadataRequest, rights: Rights, proceed: Proceed) -> Guarded:
        denied: list[Any] = []
        is_all = request.topics is None or (rights.context.version == 0 and not request.topics)
        if not is_all:
            allowed = []
            for topic in request.topics or ():
                found = self._denial(topic, request, rights)
                if found is None:
                    allowed.append(topic)
                else:
                    denied.append(found)
                yield
            request.topics = allowed
            response = yield from proceed()
            if not allowed:
                response.topics = []  # nothing in the list is all topics in version 0
        else:
            response = yield from proceed()
            response.topics = yield from self._seen(response.topics, rights)
        for topic in response.topics:
            masked(topic, "topic_authorized_operations", rights, ResourceType.TOPIC, topic.name or "")
            yield
        response.topics = [*response.topics, *{(each.name, each.topic_id): each for each in denied}.values()]
        masked_cluster(response, rights)
        return response

    def _denial(self, topic: MetadataRequest.Topic, request: MetadataRequest, rights: Rights) -> Any:
        broker = rights.context.broker
        is_by_id = topic.name is None or topic.topic_id != NO_ID
        name = broker.cluster.name_of(topic.topic_id) if is_by_id else topic.name
        if name is None:
            return None
        denial = rights.denial((on_topic(DESCRIBE, name),))
        may_create = rights.context.version < 4 or request.allow_auto_topic_creation
        if denial is None and may_create and broker.config.auto_create_topics_enable and name not in broker.cluster.topics:
            denial = rights.denial((on_cluster(Operation.CREATE), on_topic(Operation.CREATE, name)))
        if denial is None:
            return None
        shown = None if is_by_id else name
        return MetadataResponse.Topic(error_code=denial.code, name=shown, topic_id=topic.topic_id)

    def _seen(self, topics: list[Any], rights: Rights) -> Guarded:
        seen = []
        for topic in topics:
            if rights.allows(on_topic(DESCRIBE, topic.name)):
                seen.append(topic)
            yield
        return seen


class TopicPages:
    """A page has so many partitions of topics that may be seen: without a list of topics, the list of those takes its place."""

    def handling(self, request: DescribeTopicPartitionsRequest, rights: Rights, proceed: Proceed) -> Guarded:
        Topic = DescribeTopicPartitionsResponse.Topic
        denied: dict[str, Any] = {}
        if request.topics:
            allowed = []
            for topic in request.topics:
                denial = rights.denial((on_topic(DESCRIBE, topic.name),))
                if denial is None:
                    allowed.append(topic)
                else:
                    denied[topic.name] = Topic(error_code=denial.code, name=topic.name)
                yield
        else:
            allowed = yield from self._all(request, rights)
        if not allowed:
            return DescribeTopicPartitionsResponse(topics=list(denied.values()))
        request.topics = allowed
        response = yield from proceed()
        for topic in response.topics:
            masked(topic, "topic_authorized_operations", rights, ResourceType.TOPIC, topic.name)
            yield
        response.topics = [*response.topics, *denied.values()]
        return response

    def _all(self, request: DescribeTopicPartitionsRequest, rights: Rights) -> Guarded:
        cursor, names = request.cursor, []
        for name in sorted(rights.context.broker.cluster.topics):
            if (cursor is None or name >= cursor.topic_name) and rights.allows(on_topic(DESCRIBE, name)):
                names.append(name)
            yield
        if cursor is not None and cursor.topic_name not in names[:1]:
            request.cursor = None  # it is gone, or may not be seen any more: the next one begins at its first partition
        return [DescribeTopicPartitionsRequest.Topic(name=name) for name in names]


class DeletedTopics:
    """A topic that is named by an id keeps its name from who may not describe it."""

    def handling(self, request: Any, rights: Rights, proceed: Proceed) -> Guarded:
        Answer = DeleteTopicsResponse.Response
        cluster = rights.context.broker.cluster
        allowed, denied = [], []
        for topic in request.topics:
            name = topic.name or cluster.name_of(topic.topic_id)
            denial = rights.denial((on_topic(Operation.DELETE, name),)) if name else None
            if denial is None:
                allowed.append(topic)
            else:
                shown = name if topic.name or rights.allows(on_topic(DESCRIBE, name or "")) else None
                denied.append(Answer(name=shown, topic_id=topic.topic_id, error_code=denial.code, error_message=denial.why))
            yield
        if denied and not allowed:
            return DeleteTopicsResponse(responses=denied)
        request.topics = allowed
        response = yield from proceed()
        response.responses = [*response.responses, *denied]
        return response


class CreatedTopics:
    """The answer has the settings of a topic for who may describe them."""

    def handling(self, request: Any, rights: Rights, proceed: Proceed) -> Guarded:
        response = yield from proceed()
        for topic in response.topics:
            if not topic.error_code and not rights.allows(on_topic(Operation.DESCRIBE_CONFIGS, topic.name)):
                topic.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                topic.num_partitions = topic.replication_factor = -1
                topic.configs = []
            yield
        return response


# Groups and transactions.


class FoundCoordinators:
    def handling(self, request: Any, rights: Rights, proceed: Proceed) -> Guarded:
        if rights.context.version < MANY_COORDINATORS_SINCE:
            denial = self._denial(request.key_type, request.key, rights)
            if denial is not None:
                return FindCoordinatorResponse(error_code=denial.code, error_message=denial.why, node_id=-1, port=-1)
            return (yield from proceed())
        allowed, denied = [], []
        for key in request.coordinator_keys:
            denial = self._denial(request.key_type, key, rights)
            if denial is None:
                allowed.append(key)
            else:
                denied.append(answers.coordinator(key, denial))
            yield
        request.coordinator_keys = allowed
        response = yield from proceed()
        response.coordinators = [*response.coordinators, *denied]
        return response

    def _denial(self, key_type: int, key: str, rights: Rights) -> Denial | None:
        accesses = {GROUP_KEY: on_group, TRANSACTION_KEY: on_transaction}
        access = accesses.get(key_type)
        return None if access is None else rights.denial((access(DESCRIBE, key),))


class CommittedOffsets:
    def handling(self, request: Any, rights: Rights, proceed: Proceed) -> Guarded:
        if rights.context.version < MANY_GROUPS_SINCE:
            return (yield from self._one(request, rights, proceed))
        groups = []
        refused: dict[str, Any] = {}
        denied: dict[str, list[Any]] = {}
        unfiltered = set()
        for group in request.groups:
            denial = rights.denial((on_group(DESCRIBE, group.group_id),))
            if denial is not None:
                refused[group.group_id] = OffsetFetchResponse.Group(group_id=group.group_id, error_code=denial.code)
                continue
            groups.append(group)
            if group.topics is None:
                unfiltered.add(group.group_id)
            else:
                group.topics, denied[group.group_id] = yield from self._split(
                    group.topics, rights, answers.unknown_offsets_of_group
                )
            yield
        request.groups = groups
        response = yield from proceed()
        for group in response.groups:
            if group.group_id in unfiltered:
                group.topics = yield from self._seen(group.topics, rights)
            elif not group.error_code:
                group.topics = [*group.topics, *denied[group.group_id]]
            yield
        response.groups = [*response.groups, *refused.values()]
        return response

    def _one(self, request: Any, rights: Rights, proceed: Proceed) -> Guarded:
        denial = rights.denial((on_group(DESCRIBE, request.group_id),))
        if denial is not None:
            return answers.no_offsets(request, rights.context.version, denial)
        if request.topics is None:
            response = yield from proceed()
            response.topics = yield from self._seen(response.topics, rights)
            return response
        request.topics, denied = yield from self._split(request.topics, rights, answers.unknown_offsets)
        response = yield from proceed()
        if not response.error_code:
            response.topics = [*response.topics, *denied]
        return response

    def _split(self, topics: list[Any], rights: Rights, part: Callable[[Any, Denial], Any]) -> Guarded:
        """Those that may be asked for, and the answers of the others."""
        allowed, denied = [], []
        for topic in topics:
            name = self._name(topic, rights)
            denial = rights.denial((on_topic(DESCRIBE, name),)) if name else None
            if denial is None:
                allowed.append(topic)
            else:
                denied.append(part(topic, denial))
            yield
        return allowed, denied

    def _seen(self, topics: list[Any], rights: Rights) -> Guarded:
        seen = []
        for topic in topics:
            name = self._name(topic, rights)
            if name and rights.allows(on_topic(DESCRIBE, name)):
                seen.append(topic)
            yield
        return seen

    def _name(self, topic: Any, rights: Rights) -> str | None:
        is_by_id = rights.context.version >= OFFSETS_BY_ID_SINCE
        return rights.context.broker.cluster.name_of(topic.topic_id) if is_by_id else topic.name


class SubscribedTopics:
    """A member may describe all topics that it subscribes to by name; a pattern stands for those that it may describe."""

    def handling(self, request: Any, rights: Rights, proceed: Proceed) -> Guarded:
        for name in request.subscribed_topic_names or ():
            denial = rights.denial((on_topic(DESCRIBE, name),))
            if denial is not None:
                return ConsumerGroupHeartbeatResponse(error_code=denial.code, error_message=denial.why)
            yield
        rights.context.may_describe = lambda topic: rights.allows(on_topic(DESCRIBE, topic))
        return (yield from proceed())


class DescribedGroups:
    """A group is shown as a whole, or (of the consumer protocol) not at all: its members name topics."""

    def handling(self, request: Any, rights: Rights, proceed: Proceed) -> Guarded:
        response = yield from proceed()
        for place, group in enumerate(response.groups):
            masked(group, "authorized_operations", rights, ResourceType.GROUP, group.group_id)
            if isinstance(group, ConsumerGroupDescribeResponse.Group) and not all(
                rights.allows(on_topic(DESCRIBE, name)) for name in topics_of(group)
            ):
                response.groups[place] = ConsumerGroupDescribeResponse.Group(
                    group_id=group.group_id,
                    error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                    error_message="The group has described topic(s) that the client is not authorized to describe.",
                )
            yield
        return response


def topics_of(group: Any) -> set[str]:
    return {
        each.topic_name
        for member in group.members
        for assignment in (member.assignment, member.target_assignment)
        for each in assignment.topic_partitions
    } | {name for member in group.members for name in member.subscribed_topic_names}


class AddedPartitions:
    """To a transaction: all of them, or none."""

    def handling(self, request: Any, rights: Rights, proceed: Proceed) -> Guarded:
        denied: dict[str, Denial] = {}
        for topic in request.v3_and_below_topics:
            denial = rights.denial((on_topic(Operation.WRITE, topic.name),))
            if denial is not None:
                denied[topic.name] = denial
            yield
        if denied:
            is_there = rights.context.broker.cluster.has_partition
            return answers.added_partitions(request, answers.not_attempted(denied, is_there))
        return (yield from proceed())


class DescribedTransactions:
    """Of a transaction that may be described, the topics that may be."""

    def handling(self, request: Any, rights: Rights, proceed: Proceed) -> Guarded:
        response = yield from proceed()
        for each in response.transaction_states:
            each.topics = [topic for topic in each.topics if rights.allows(on_topic(DESCRIBE, topic.topic))]
            yield
        return response


# What the client may do, as a bit field.


class ClusterOperations:
    def handling(self, request: Any, rights: Rights, proceed: Proceed) -> Guarded:
        response = yield from proceed()
        masked_cluster(response, rights)
        return response


def masked_cluster(response: Any, rights: Rights) -> None:
    """Nothing for who may not describe the cluster, as in Kafka."""
    name = "cluster_authorized_operations"
    if not rights.allows(on_cluster(DESCRIBE)) and getattr(response, name) != NOT_ASKED:
        setattr(response, name, 0)
    masked(response, name, rights, ResourceType.CLUSTER, CLUSTER_NAME)


def masked(part: Any, field: str, rights: Rights, kind: ResourceType, name: str) -> None:
    """Leave of the operations that make sense those that are allowed."""
    operations = getattr(part, field)
    if operations != NOT_ASKED:
        allowed = (each for each in Operation if operations & 1 << each and rights.allows(Access(each, kind, name)))
        setattr(part, field, bit_field(*allowed))
