"""aiokafka: what its users do, with the settings they would use."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from importlib.metadata import version
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import MessageSizeTooLargeError, ProducerFenced
from aiokafka.structs import OffsetAndMetadata

from tests.clients import situations
from tests.clients.client import Client
from tests.clients.served import Served
from tests.clients.situations import CODECS, covers
from tests.waiting import PROCESS_PATIENCE

LACKS = {
    situations.CONSUMER_PROTOCOL: "it has the classic protocol only",
    situations.GROUP_OFFSETS: "its admin client has no call for it",
    situations.DELETE_GROUPS: "its admin client has no call for it",
}
CLIENTS = [Client("aiokafka", "Python", lambda: version("aiokafka"))]
SECONDS = PROCESS_PATIENCE
PATIENT = {"request_timeout_ms": int(1000 * SECONDS)}


def in_a_loop(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Runs a coroutine as a test: nothing here needs more of asyncio than that."""

    @functools.wraps(test)
    def run(*arguments: Any, **named: Any) -> None:
        asyncio.run(asyncio.wait_for(test(*arguments, **named), 4 * SECONDS))

    return run


@contextlib.asynccontextmanager
async def administering(served: Served) -> AsyncIterator[AIOKafkaAdminClient]:
    client = AIOKafkaAdminClient(bootstrap_servers=served.bootstrap, **PATIENT)
    await client.start()
    try:
        yield client
    finally:
        await client.close()


def producing(served: Served, **settings: Any) -> AIOKafkaProducer:
    return AIOKafkaProducer(bootstrap_servers=served.bootstrap, **{**PATIENT, **settings})


def consuming(served: Served, *topics: str, **settings: Any) -> AIOKafkaConsumer:
    common = {
        **PATIENT,
        "bootstrap_servers": served.bootstrap,
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
        "fetch_max_wait_ms": 50,
        "heartbeat_interval_ms": 200,
        "session_timeout_ms": 60_000,
    }
    return AIOKafkaConsumer(*topics, **{**common, **settings})


async def create(served: Served, partitions: int = 1) -> str:
    topic = served.name()
    async with administering(served) as admin:
        answer = await admin.create_topics([NewTopic(topic, partitions, 1)])
    assert [error for _, error, _ in answer.topic_errors] == [0]
    return topic


async def fill(served: Served, topic: str, values: list[bytes], **settings: Any) -> None:
    async with producing(served, **settings) as producer:
        sent = [await producer.send(topic, value, partition=0) for value in values]
        await asyncio.gather(*sent)


async def take(consumer: AIOKafkaConsumer, count: int) -> list[Any]:
    found: list[Any] = []
    deadline = asyncio.get_running_loop().time() + SECONDS
    while len(found) < count and asyncio.get_running_loop().time() < deadline:
        for records in (await consumer.getmany(timeout_ms=100)).values():
            found += records
    return found


async def until(is_so: Callable[[], Awaitable[bool]], what: str) -> None:
    deadline = asyncio.get_running_loop().time() + SECONDS
    while not await is_so():
        assert asyncio.get_running_loop().time() < deadline, f"not within {SECONDS:g} s: {what}"
        await asyncio.sleep(0.05)


async def read(served: Served, topic: str, count: int, **settings: Any) -> list[Any]:
    async with consuming(served, topic, **settings) as consumer:
        return await take(consumer, count)


@covers("codec {codec}")
@pytest.mark.parametrize("codec", CODECS)
@in_a_loop
async def test_every_codec_is_stored_as_sent_and_read_back(served, codec):
    topic = await create(served)
    values = [b"%d %s" % (number, b"page visit " * 20) for number in range(200)]
    await fill(served, topic, values, compression_type=None if codec == "none" else codec, linger_ms=5)
    assert [record.value for record in await read(served, topic, 200)] == values
    assert served.codecs(topic) == {CODECS[codec]}


@covers(situations.HEADERS, situations.TIMESTAMPS)
@in_a_loop
async def test_keys_headers_nulls_and_timestamps_come_back(served):
    topic = await create(served)
    headers = [("trace", b"\x00\xff"), ("trace", b"again"), ("empty", b"")]
    async with producing(served) as producer:
        await producer.send_and_wait(topic, b"value", b"key", 0, 1_500_000_000_123, headers)
        await producer.send_and_wait(topic, None, b"only a key", 0, 1_500_000_000_124)
    first, null = await read(served, topic, 2)
    assert (first.key, first.value, list(first.headers), first.timestamp) == (b"key", b"value", headers, 1_500_000_000_123)
    assert (null.key, null.value, null.timestamp, null.timestamp_type) == (b"only a key", None, 1_500_000_000_124, 0)


@covers(situations.LARGE, situations.TOO_LARGE)
@in_a_loop
async def test_a_message_near_the_limit_passes_and_one_above_is_refused(served):
    topic = await create(served)
    async with producing(served, max_request_size=3_000_000) as producer:
        await producer.send_and_wait(topic, b"x" * 900_000, partition=0)
        with pytest.raises(MessageSizeTooLargeError):
            await producer.send_and_wait(topic, b"x" * 2_000_000, partition=0)
    assert [len(record.value) for record in await read(served, topic, 1)] == [900_000]


@covers(situations.OFFSETS_BY_TIME)
@in_a_loop
async def test_offsets_are_found_by_time(served):
    topic = await create(served)
    partition = TopicPartition(topic, 0)
    async with producing(served) as producer:
        for number in range(10):
            await producer.send_and_wait(topic, b"visit", partition=0, timestamp_ms=1_600_000_000_000 + 1000 * number)
    async with consuming(served, topic) as consumer:
        found = (await consumer.offsets_for_times({partition: 1_600_000_003_500}))[partition]
        assert (found.offset, found.timestamp) == (4, 1_600_000_004_000)
        assert await consumer.offsets_for_times({partition: 1_600_000_009_001}) == {partition: None}
        assert await consumer.beginning_offsets([partition]) == {partition: 0}
        assert await consumer.end_offsets([partition]) == {partition: 10}


@covers(situations.CLASSIC_GROUP)
@in_a_loop
async def test_two_members_share_and_the_one_left_takes_over(served):
    topic, group = await create(served, partitions=4), served.name("group")
    first, second = consuming(served, topic, group_id=group), consuming(served, topic, group_id=group)

    async def until_they_have(*counts: int) -> None:
        async def have() -> bool:
            return tuple(len(member.assignment()) for member in [first, second][: len(counts)]) == counts

        await until(have, f"the members have {counts}")

    async with first:
        await until_they_have(4)
        async with second:
            await until_they_have(2, 2)
        await until_they_have(4)


@covers(situations.RESUME)
@in_a_loop
async def test_a_new_consumer_goes_on_where_the_group_committed(served):
    topic, group = await create(served), served.name("group")
    partition = TopicPartition(topic, 0)
    await fill(served, topic, [b"%d" % number for number in range(10)])
    async with consuming(served, topic, group_id=group, max_poll_records=4) as first:
        assert [record.value for record in await take(first, 4)] == [b"0", b"1", b"2", b"3"]
        await first.commit({partition: OffsetAndMetadata(4, "half way")})
    async with consuming(served, topic, group_id=group) as second:
        assert [record.value for record in await take(second, 6)] == [b"4", b"5", b"6", b"7", b"8", b"9"]
        assert await second.committed(partition) == 4


@covers(situations.IDEMPOTENCE)
@in_a_loop
async def test_an_idempotent_producer_writes_each_record_once_in_order(served):
    topic = await create(served)
    values = [b"%d" % number for number in range(1000)]
    await fill(served, topic, values, enable_idempotence=True, max_batch_size=500)
    assert [record.value for record in await read(served, topic, 1000)] == values
    served.assert_idempotent(topic, 1000)


@covers(situations.TRANSACTIONS)
@in_a_loop
async def test_committed_transactions_are_read_and_aborted_ones_are_not(served):
    topic = await create(served)
    async with producing(served, transactional_id=served.name("transaction")) as producer:
        async with producer.transaction():
            await producer.send_and_wait(topic, b"first", partition=0)
        await producer.begin_transaction()
        await producer.send_and_wait(topic, b"lost", partition=0)
        await producer.abort_transaction()
        async with producer.transaction():
            await producer.send_and_wait(topic, b"third", partition=0)
    assert [record.value for record in await read(served, topic, 2, isolation_level="read_committed")] == [b"first", b"third"]
    everything = await read(served, topic, 3)
    assert [(record.offset, record.value) for record in everything] == [(0, b"first"), (2, b"lost"), (4, b"third")]


@covers(situations.OFFSETS_IN_TRANSACTIONS)
@in_a_loop
async def test_offsets_in_a_transaction_follow_its_outcome(served):
    topic, group = await create(served), served.name("group")
    partition = TopicPartition(topic, 0)
    await fill(served, topic, [b"a", b"b", b"c", b"d"])
    async with administering(served) as admin, producing(served, transactional_id=served.name("transaction")) as producer:

        async def is_two() -> bool:
            found = await admin.list_consumer_group_offsets(group)
            return partition in found and found[partition].offset == 2

        for offset, end in [(2, producer.commit_transaction), (4, producer.abort_transaction)]:
            await producer.begin_transaction()
            await producer.send_offsets_to_transaction({partition: offset}, group)
            await end()
            # The answer comes before the marker: the group's coordinator may be another broker, and hear of the outcome later.
            await until(is_two, "the offset of the first transaction is the group's")


@covers(situations.FENCING)
@in_a_loop
async def test_a_second_producer_of_the_same_id_fences_the_first(served):
    topic, name = await create(served), served.name("transaction")
    is_fenced = False
    # Stopping complains once more.
    with contextlib.suppress(ProducerFenced):
        async with producing(served, transactional_id=name) as first:
            await first.begin_transaction()
            await first.send_and_wait(topic, b"in time", partition=0)
            async with producing(served, transactional_id=name):
                with pytest.raises(ProducerFenced):
                    await first.send_and_wait(topic, b"too late", partition=0)
                is_fenced = True
    assert is_fenced


@covers(situations.TOPICS)
@in_a_loop
async def test_topics_are_created_grown_configured_and_deleted(served):
    topic = await create(served, partitions=2)
    async with administering(served) as admin:
        await admin.create_partitions({topic: NewPartitions(3)})
        (described,) = await admin.describe_topics([topic])
        assert [found["partition"] for found in described["partitions"]] == [0, 1, 2]
        assert {found["leader"] for found in described["partitions"]} <= served.node_ids
        await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, {"retention.ms": "8000000"})])
        (answer,) = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic, {"retention.ms": None})])
        assert answer.resources[0][4][0][:2] == ("retention.ms", "8000000")
        await admin.delete_topics([topic])
        assert topic not in await admin.list_topics()


@covers(situations.DELETE_RECORDS)
@in_a_loop
async def test_records_are_deleted_up_to_an_offset(served):
    topic = await create(served)
    await fill(served, topic, [b"0", b"1", b"2", b"3"])
    async with administering(served) as admin:
        assert await admin.delete_records({TopicPartition(topic, 0): RecordsToDelete(3)}) == {TopicPartition(topic, 0): 3}
    assert [(record.offset, record.value) for record in await read(served, topic, 1)] == [(3, b"3")]


@covers(situations.GROUPS)
@in_a_loop
async def test_groups_are_listed_and_described_with_their_offsets(served):
    topic, group = await create(served), served.name("group")
    await fill(served, topic, [b"a", b"b", b"c"])
    async with administering(served) as admin:
        async with consuming(served, topic, group_id=group, client_id="reader-1") as consumer:
            assert len(await take(consumer, 3)) == 3
            await consumer.commit()
            assert (group, "consumer") in await admin.list_consumer_groups()
            (answer,) = await admin.describe_consumer_groups([group])
            _, name, state, kind, _, members = answer.groups[0][:6]
            assert (name, state, kind, [member[1] for member in members]) == (group, "Stable", "consumer", ["reader-1"])
        assert (await admin.list_consumer_group_offsets(group))[TopicPartition(topic, 0)].offset == 3
