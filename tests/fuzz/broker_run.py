"""A run of hostile requests through one broker after the other; the first finding ends it, with the seed that repeats it."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from milepost.broker.dispatch import served_apis
from milepost.protocol import frames
from milepost.protocol.messages import CreateTopicsRequest
from tests.fuzz.driven_broker import DrivenBroker, Finding, error_codes
from tests.fuzz.hostile_requests import Requests

REQUESTS_TO_A_BROKER = 2000
HEALTH_EVERY = 200
NOISE = 0.1
# One in so many of these is sent: they undo what the others need.
RARE = {20: 6}

Topic = CreateTopicsRequest.Topic
TOPICS = [
    Topic(name="plain", num_partitions=2, replication_factor=1),
    Topic(name="many", num_partitions=5, replication_factor=1),
    Topic(
        name="compacted",
        num_partitions=1,
        replication_factor=1,
        configs=[Topic.Config(name="cleanup.policy", value="compact")],
    ),
    Topic(
        name="small",
        num_partitions=1,
        replication_factor=1,
        configs=[Topic.Config(name="max.message.bytes", value="200")],
    ),
]


@dataclass
class Counts:
    requests: int = 0
    answered: int = 0
    closed: int = 0
    codes: Counter[int] = field(default_factory=Counter)

    def __str__(self) -> str:
        return f"{self.requests} requests: {self.answered} answered, {self.closed} closed on; error codes {dict(self.codes)}"


def served_versions() -> list[tuple[int, int]]:
    """(api key, version) of everything the broker serves."""
    return [(api.key, version) for api in served_apis().values() for version in range(api.served[0], api.served[1] + 1)]


def started(directory: Path, seed: int, requests: Requests) -> DrivenBroker:
    """A broker with the topics that hostile requests speak of."""
    driven = DrivenBroker(directory, seed)
    frame = frames.encode_request(19, 7, 1, "setup", CreateTopicsRequest(topics=TOPICS, timeout_ms=1000))[4:]
    answer = driven.feed(frame)
    assert answer is not None
    requests.learn(frame, answer)
    return driven


def run(directory: Path, seed: int, count: int) -> Counts:
    """At least `count` requests, and every API and version in every round."""
    counts = Counts()
    for number in range((count + REQUESTS_TO_A_BROKER - 1) // REQUESTS_TO_A_BROKER):
        place = directory / f"{seed}-{number}"
        one_broker(place, seed * 100_000 + number, counts)
        shutil.rmtree(place)
    return counts


def one_broker(directory: Path, seed: int, counts: Counts) -> None:
    requests = Requests(seed)
    driven = started(directory, seed, requests)
    frame = b""
    try:
        for step, (key, version) in enumerate(plan(requests.rng)):
            frame = requests.noise(key, version) if requests.rng.random() < NOISE else requests.frame(key, version)
            answer = driven.feed(frame)
            if answer is not None:
                requests.learn(frame, answer)
                counts.codes.update(code for _, code in error_codes(answer))
            if step % HEALTH_EVERY == 0:
                driven.judge_health()
        driven.judge_health()
    except Finding as finding:
        raise Finding(f"seed {seed}: {finding}") from finding.__cause__
    finally:
        counts.requests += REQUESTS_TO_A_BROKER
        counts.answered += driven.answered
        counts.closed += driven.closed
        driven.stop()


def plan(rng: random.Random) -> list[tuple[int, int]]:
    """Which requests, in which order."""
    everything = served_versions()
    common = [place for place in everything if rng.randrange(RARE.get(place[0], 1)) == 0]
    chosen = [*everything, *rng.choices(common, k=REQUESTS_TO_A_BROKER - len(everything))]
    rng.shuffle(chosen)
    return chosen
