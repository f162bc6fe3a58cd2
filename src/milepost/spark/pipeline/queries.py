"""Schemas and queries of a pipeline, checked by Spark on empty views before the first stage runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from milepost.errors import PipelineMistakes
from milepost.spark.pipeline.definition import Stage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OWN_COLUMNS = "_key string, _time timestamp, _offset bigint"


def has_queries(stages: Iterable[Stage]) -> bool:
    """Whether there is something that only Spark can check."""
    return any(stage.kind == "transform" or stage.settings.get("schema") for stage in stages)


def check_queries(spark: SparkSession, stages: Iterable[Stage], before: Sequence[str] = ()) -> None:
    """Raises one error with all mistakes, a line for each, behind those that were found before."""
    found = [*before, *(f"{stage.place}: {mistake}" for stage in stages for mistake in _mistakes(spark, stage))]
    if found:
        raise PipelineMistakes(found)


def _mistakes(spark: SparkSession, stage: Stage) -> Iterator[str]:
    settings = stage.settings
    if stage.kind == "load" and settings.get("schema"):
        frame = yield from _empty(spark, settings["schema"], "schema")
        for name in ("key", "time"):
            if frame is not None and settings.get(name) is not None and settings[name] not in frame.columns:
                yield f"{name} is {settings[name]!r}, which is no column of the schema; there are {', '.join(frame.columns)}"
    if stage.kind != "transform":
        return
    is_readable = True
    for view, read in settings["read"].items():
        frame = yield from _empty(spark, f"{read['schema']}, {OWN_COLUMNS}", f"read {view}: schema")
        if frame is None:
            is_readable = False
        else:
            frame.createOrReplaceTempView(view)
            watermark = (settings.get("watermark") or {}).get(view)
            if watermark is not None and watermark[0] not in frame.columns:
                yield f"watermark {view}: {watermark[0]!r} is no column of the view; there are {', '.join(frame.columns)}"
            elif watermark is not None:
                yield from _check_watermark(frame, view, *watermark)
    if is_readable:
        yield from _check_sql(spark, settings)


def _check_watermark(frame: DataFrame, view: str, column: str, delay: str) -> Iterator[str]:
    kind = frame.schema[column].dataType.simpleString()
    if kind != "timestamp":
        # Of a batch, which this is, Spark does not mind.
        yield f"watermark {view}: {column!r} is {kind}; a column of type timestamp is expected"
    try:
        _ = frame.withWatermark(column, delay).schema
    except Exception as error:
        yield f"watermark {view}: {_first_line(error)}"


def _check_sql(spark: SparkSession, settings: Any) -> Iterator[str]:
    query = settings["sql"].strip().rstrip(";")
    try:
        # As a subquery: it is analysed and not run, and a command is none.
        result = spark.sql(f"SELECT * FROM (\n{query}\n)")
    except Exception as error:
        yield f"sql: {_first_line(error)}"
        return
    for output in settings["to"]:
        if output.get("key") is not None and output["key"] not in result.columns:
            yield f"to: key is {output['key']!r}, which the query does not give; it gives {', '.join(result.columns)}"


def _empty(spark: SparkSession, schema: str, what: str) -> Any:
    """A generator that returns a frame without rows, or None after it has said why there is none."""
    frame: DataFrame | None = None
    try:
        frame = spark.createDataFrame([], schema)
    except Exception as error:
        yield f"{what} is no list of columns such as 'user string, at timestamp': {_first_line(error)}"
    return frame


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
