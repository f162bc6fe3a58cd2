"""How far the stages of a pipeline lie behind the log: what was appended since they read it."""

from __future__ import annotations

from milepost.errors import MilepostError
from milepost.files import Disk
from milepost.spark.jobs.export_state import ExportState
from milepost.spark.pipeline.definition import Pipeline
from milepost.spark.pipeline.state import PipelineState
from milepost.spark.pipeline.transform import latest


def lag_of(pipeline: Pipeline, state: PipelineState) -> list[tuple[str, int]]:
    found = []
    for stage in pipeline.stages:
        if stage.kind == "transform":
            topics = {read["topic"] for read in stage.settings["read"].values()}
            read = {topic: state.of(stage.name).get("ends", {}).get(topic, {}) for topic in topics}
        elif stage.kind == "export":
            last = ExportState(Disk(), stage.settings["to"]).last()
            exported = last.offsets if last is not None else {}
            topics = {stage.settings["topic"]}
            read = {
                topic: {str(name.partition): end for name, end in exported.items() if name.topic == topic} for topic in topics
            }
        else:
            continue
        found.append((stage.title, sum(behind(pipeline.data, topic, read[topic]) for topic in topics)))
    return found


def behind(data: str, topic: str, ends: dict[str, int]) -> int:
    try:
        now = latest(data, topic)
    except MilepostError:
        return 0
    return sum(max(end - ends.get(str(name.partition), 0), 0) for name, end in now.items())
