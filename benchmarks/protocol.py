"""The wire codec, one message at a time: frame to request, response to frame; what an import and a first use cost."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from common import batch_of, best, table

from milepost.protocol import frames, generated
from milepost.protocol.apis import APIS, BY_NAME
from milepost.protocol.connection import FrameReader
from milepost.protocol.headers import read_request_header
from milepost.protocol.messages import FetchRequest, FetchResponse, MetadataResponse, ProduceRequest, ProduceResponse

PRODUCE, FETCH, METADATA = (BY_NAME[name].key for name in ("Produce", "Fetch", "Metadata"))


def microseconds(work: Callable[[], object], calls: int) -> float:
    def repeated() -> None:
        for _ in range(calls):
            work()

    return best(repeated) / calls * 1e6


def produce_request() -> ProduceRequest:
    partition = ProduceRequest.TopicData.PartitionData(index=0, records=batch_of(1, 100))
    topic = ProduceRequest.TopicData(name="page_visits", partition_data=[partition])
    return ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[topic])


def produce_response() -> ProduceResponse:
    partition = ProduceResponse.Response.PartitionResponse(index=0, base_offset=1_000, log_start_offset=0)
    return ProduceResponse(responses=[ProduceResponse.Response(name="page_visits", partition_responses=[partition])])


def fetch_request(partitions: int) -> FetchRequest:
    wanted = [FetchRequest.Topic.Partition(partition=index, partition_max_bytes=1 << 20) for index in range(partitions)]
    return FetchRequest(max_wait_ms=500, min_bytes=1, topics=[FetchRequest.Topic(topic="page_visits", partitions=wanted)])


def fetch_response(partitions: int) -> FetchResponse:
    records = memoryview(bytes(16_384))
    found = [
        FetchResponse.Response.Partition(partition_index=index, high_watermark=9, aborted_transactions=None, records=records)
        for index in range(partitions)
    ]
    return FetchResponse(responses=[FetchResponse.Response(topic="page_visits", partitions=found)])


def metadata_response() -> MetadataResponse:
    partition = MetadataResponse.Topic.Partition
    topics = [
        MetadataResponse.Topic(
            name=f"topic-{number}",
            topic_id=bytes(16),
            partitions=[
                partition(partition_index=index, leader_id=1, replica_nodes=[1, 2, 3], isr_nodes=[1, 2, 3]) for index in range(10)
            ],
        )
        for number in range(10)
    ]
    return MetadataResponse(brokers=[MetadataResponse.Broker(node_id=1, host="127.0.0.1", port=9092)], topics=topics)


def request_walk(reader: FrameReader, frame: bytes) -> object:
    """What a broker does with every frame before its handler sees it."""
    (view,) = reader.feed(frame)
    return frames.decode_request(read_request_header(view), view)


def answer(key: int, version: int, body: Any) -> object:
    return frames.encode_response(key, version, 7, body)


def message_rows() -> list[tuple[str, str, str]]:
    rows = []
    reader = FrameReader()

    def row(name: str, work: Callable[[], object], calls: int) -> None:
        rows.append((name, f"{microseconds(work, calls):.2f} us", ""))

    for version in (7, 9):
        frame = frames.encode_request(PRODUCE, version, 7, "client-1", produce_request())
        header = read_request_header(frame[4:])
        body = frame[4:]
        decode = generated.request_decoder(PRODUCE, version)
        row(f"Produce {version} request, 1 partition: body", lambda d=decode, b=body, h=header: d(b, h.body), 20_000)
        row(f"Produce {version} request: frame, header, body", lambda f=frame: request_walk(reader, f), 20_000)
        response = produce_response()
        row(f"Produce {version} response, 1 partition: frame", lambda r=response, v=version: answer(PRODUCE, v, r), 20_000)
    row("Produce response: its three objects made", produce_response, 20_000)
    fetch = frames.encode_request(FETCH, 12, 7, "client-1", fetch_request(10))
    row("Fetch 12 request, 10 partitions: frame, header, body", lambda: request_walk(reader, fetch), 5_000)
    fetched = fetch_response(10)
    row("Fetch 12 response, 10 x 16 KiB: pieces", lambda: frames.gather_response(FETCH, 12, 7, fetched), 5_000)
    metadata = metadata_response()
    row("Metadata 12 response, 100 partitions: frame", lambda: answer(METADATA, 12, metadata), 500)
    read = frames.encode_response(METADATA, 12, 7, metadata)[4:]
    row("Metadata 12 response, 100 partitions: read", lambda: frames.decode_response(METADATA, 12, read), 500)
    return rows


def first_use_rows() -> list[tuple[str, str, str]]:
    made = []
    for api in APIS:
        generated.class_named(f"{api.name}Request")
        for version in range(api.known[0], api.known[1] + 1):
            for make in (
                generated.request_decoder,
                generated.request_encoder,
                generated.response_decoder,
                generated.response_encoder,
            ):
                start = time.perf_counter()
                make(api.key, version)
                made.append((time.perf_counter() - start) * 1e3)
    made.sort()
    code = "import time, milepost; t = time.perf_counter(); import milepost.protocol.apis; print((time.perf_counter() - t) * 1e3)"
    imports = [float(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout) for _ in range(7)]
    return [
        ("import milepost.protocol.apis", f"{min(imports):.1f} ms", "a few ms"),
        (f"first use, median of {len(made)} functions", f"{statistics.median(made):.2f} ms", ""),
        ("first use, 95 of 100 are under", f"{made[len(made) * 95 // 100]:.2f} ms", "<= 1 ms"),
        ("first use, the largest", f"{made[-1]:.2f} ms", ""),
    ]


def main() -> None:
    table("first use of the protocol", first_use_rows())
    table("messages", message_rows())


if __name__ == "__main__":
    main()
