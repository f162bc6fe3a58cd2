"""Columns: the connector's schema, ours by request, and schemas that ask for less."""

from __future__ import annotations

import pyarrow as pa
import pytest

from milepost.errors import InvalidArgument
from milepost.spark.columns import VIEWS, Columns


def test_default_schema_is_the_connectors() -> None:
    assert Columns.of().ddl() == (
        "`key` binary, `value` binary, `topic` string, `partition` int, `offset` bigint, `timestamp` timestamp, `timestampType` int"
    )


def test_headers_come_on_request() -> None:
    assert Columns.of("records", True).ddl().endswith(", `timestampType` int, `headers` array<struct<key:string,value:binary>>")


@pytest.mark.parametrize("view", VIEWS)
def test_arrow_schema_is_what_spark_makes_of_the_ddl(spark: object, view: str) -> None:
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import _parse_datatype_string

    columns = Columns.of(view, True)
    assert columns.arrow_schema().equals(to_arrow_schema(_parse_datatype_string(columns.ddl()), timezone="UTC"))


def test_any_columns_in_any_order() -> None:
    columns = Columns.chosen("records", [("offset", "bigint"), ("value", "binary"), ("bad_ts", "bigint")])
    assert columns.arrow_schema() == pa.schema([("offset", pa.int64()), ("value", pa.binary()), ("bad_ts", pa.int64())])


@pytest.mark.parametrize(
    ("fields", "match"),
    [
        ([("valeu", "binary")], "column 'valeu': the view records has key, value"),
        ([("value", "string")], "column value: it is binary, the schema says string; read it as it is and cast it"),
        ([("value", "binary"), ("value", "binary")], "names it twice"),
        ([], "the schema is empty"),
    ],
)
def test_schema_that_does_not_fit_is_refused(fields: list[tuple[str, str]], match: str) -> None:
    with pytest.raises(InvalidArgument, match=match):
        Columns.chosen("records", fields)
