"""Two parts of the conversation in `transaction_conversation`: time that runs out, and epochs that do."""

from __future__ import annotations

from milepost.protocol.messages import InitProducerIdRequest
from tests.broker.transaction_talk import Producer, Talk


def timeouts(talk: Talk) -> None:
    """Transactions that were open for too long, and what their producers say afterwards."""
    talk.topic("t")
    talk.coordinators("slow", "g5")

    def late(name: str) -> Producer:
        talk.title(f"too late: {name}")
        producer = talk.init(name, timeout_ms=300)
        talk.produce(name, producer, "t-0", 0)
        talk.until(name, "CompleteAbort")
        talk.transaction(name)
        return producer

    old = late("abort")
    new = talk.end("abort", old, False)
    talk.end("abort", new, False)

    old = late("commit")
    talk.end("commit", old, True)
    talk.transaction("commit")

    old = late("recover")
    talk.init("recover", known=old)
    talk.transaction("recover")
    talk.init("recover", known=old)

    old = late("produce")
    for version in (12, 11, 9):
        talk.produce("produce", old, "t-0", 1, version=version)
        talk.produce("produce", old, "t-1", 0, version=version)

    old = late("offsets")
    talk.commit_offset("offsets", old, "g5", "t-0", 1)
    talk.commit_offset("offsets", old, "g5", "t-0", 1, version=3)
    talk.add_offsets("offsets", old, "g5")
    talk.add("offsets", old, "t-0")

    talk.title("too late: a client of version 1")
    old = talk.init("slow", timeout_ms=3000)  # enough for two requests
    talk.add("slow", old, "t-1")
    talk.produce("slow", old, "t-1", 0, version=11)
    talk.until("slow", "CompleteAbort")
    talk.transaction("slow")
    for version in (4, 1):
        talk.end("slow", old, True, version=version)
        talk.end("slow", old, False, version=version)
    talk.init("slow", known=old)
    talk.init("slow")
    talk.log("t-0")
    talk.log("t-1")


def last_epochs(talk: Talk) -> None:
    """What happens when the epochs of a producer id run out, at 32767. Takes a hundred thousand requests."""
    talk.topic("o")
    talk.coordinators("over", "open", "known", "former", "empty")
    talk.title("ends at the last epochs")
    over = raised(talk, "over", 32765)
    talk.produce("over", over, "o-0", 0)
    last = talk.end("over", over, True)
    talk.end("over", over, True)
    talk.produce("over", last, "o-0", 0)
    fresh = talk.end("over", last, True)
    talk.transaction("over")
    talk.producers("o-0")
    talk.end("over", last, True)
    talk.end("over", last, False)
    talk.produce("over", last, "o-0", 1)
    talk.produce("over", fresh, "o-0", 0)
    talk.end("over", fresh, False)
    talk.transaction("over")
    talk.producers("o-0")
    talk.end("over", last, True)

    talk.title("InitProducerId at the last epoch, of a transaction that is open")
    still = raised(talk, "open", 32766)
    talk.produce("open", still, "o-1", 0)
    after = talk.init("open")
    talk.transaction("open")
    talk.producers("o-1")
    talk.log("o-1")
    talk.end("open", still, True)
    talk.init("open", known=still)
    talk.init("open", known=after)

    talk.title("InitProducerId at the last epoch, of a producer that says who it is")
    known = raised(talk, "known", 32766)
    renewed = talk.init("known", known=known)
    talk.init("known", known=known)
    talk.init("known", known=renewed)
    talk.init("known", known=known)

    talk.title("version 1 at the last epoch")
    former = raised(talk, "former", 32766)
    talk.add("former", former, "o-1")
    talk.produce("former", former, "o-1", 0, version=11)
    talk.end("former", former, True, version=4)
    talk.transaction("former")
    talk.add("former", former, "o-1")
    talk.init("former")
    talk.transaction("former")

    talk.title("an abort of nothing at the last epoch")
    empty = raised(talk, "empty", 32766)
    talk.end("empty", empty, False)
    talk.transaction("empty")
    talk.end("empty", empty, False)


def raised(talk: Talk, name: str, epoch: int) -> Producer:
    """A producer that was initialized so often."""
    producer = talk.init(name)
    while producer.epoch < epoch:
        answer = talk.wire.ask(InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000), 5)
        if not answer.error_code:
            producer = Producer(answer.producer_id, answer.producer_epoch)
    return producer
