"""What a batch transform writes to a topic: once for what it was made of.

The rows are a function of the records that were read and of the query, so a `fingerprint` of both says whether they are in the topic
already. Without `mode`, and with `replace`, they are written when the fingerprint is another one than that of the rows written last, when
`replace` is new, for what was there before it, and when the topic is gone; with `append` in each run.

    1  note the fingerprint, the number of the commit and, for `replace`, where the topic ends now
    2  append, under the commit's number: once, however often this is tried
    3  for `replace`: delete the records below where the topic ended
    4  note that it is done

A run that is killed in between does all of it again under the same number. Between 2 and 3 readers see old and new rows.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from milepost.config.broker import BrokerConfig
from milepost.log.manager import LogManager
from milepost.spark.bounds import offsets_from_json, offsets_to_json
from milepost.spark.jobs.copying import ends_of
from milepost.spark.pipeline.definition import Pipeline, Stage
from milepost.spark.pipeline.file_schema import APPEND, REPLACE
from milepost.spark.pipeline.state import PipelineState

if TYPE_CHECKING:
    from milepost.topic_partition import TopicPartition


def fingerprint(stage: Stage, output: Mapping[str, Any], ends: Mapping[str, Any]) -> str:
    of = [stage.identity.query, ends, output.get("key")]
    return hashlib.sha256(json.dumps(of, sort_keys=True).encode()).hexdigest()[:16]


def write_once(
    pipeline: Pipeline,
    stage: Stage,
    output: Mapping[str, Any],
    name: str,
    state: PipelineState,
    append: Callable[[str], object],
) -> bool:
    """Have `append` write the rows under the commit id that it is given, unless they are there; whether it was called."""
    mode = output.get("mode") or stage.settings.get("mode")
    kept = state.output(stage.name, name)
    made_of = fingerprint(stage, output, state.of(stage.name)["ends"])
    if mode == APPEND:
        made_of += f" in run {state.run}"
    is_gone = kept.get("is_written") and not ends_of(pipeline.data, {output["topic"]})
    if is_gone or kept.get("fingerprint") != made_of or (mode == REPLACE and kept.get("mode") != REPLACE):
        before = offsets_to_json(ends_of(pipeline.data, {output["topic"]})) if mode == REPLACE else {}
        number = kept.get("number", 0) + 1
        kept |= {"fingerprint": made_of, "mode": mode, "number": number, "is_written": False, "replaces": before}
        state.save()
    elif kept["is_written"]:
        return False
    append(f"{pipeline.name}-{state.id}-{state.key(stage.name)}.{kept['suffix']}:{kept['number']}")
    if kept.get("replaces"):
        delete_below(pipeline.data, offsets_from_json(kept["replaces"]))
    kept["is_written"] = True
    state.save()
    return True


def delete_below(data: str, starts: Mapping[TopicPartition, int]) -> None:
    logs = LogManager(BrokerConfig.parse({"log.dirs": data}))
    logs.startup()
    try:
        for partition, start in starts.items():
            log = logs.get(partition)
            if log is not None and log.start_offset < start:
                log.delete_records(start)
    finally:
        logs.shutdown()
