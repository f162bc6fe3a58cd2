"""`format("milepost")`: what Spark asks when it meets the name.

Spark makes this class in several short-lived processes, so importing it must cost next to nothing: readers, writers and Arrow are
imported when they are asked for.

A table made by `CREATE TABLE … USING milepost` could not be read: Spark keeps its OPTIONS, and does not hand them to a Python source
(seen with 4.2). So it is refused when it is made, where Spark asks for the schema, and in the same words when it is read, where it did not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, DataSourceStreamWriter, DataSourceWriter
    from pyspark.sql.types import StructType

    from milepost.spark.columns import Columns

TABLE_PROPERTIES = {"provider", "owner"}
"""What Spark adds to the options while it makes a table."""


class MilepostDataSource(DataSource):
    """A Kafka log, from its files or from a broker, as a DataFrame, and back."""

    @classmethod
    def name(cls) -> str:
        return "milepost"

    def schema(self) -> str:
        from milepost.spark.columns import VIEWS, Columns
        from milepost.spark.option_values import OptionMap, choice, flag
        from milepost.spark.worker_errors import said_first

        # Only what decides about columns: whether the query is a stream, and so what else is right, Spark does not say here.
        options = OptionMap(self.options)
        with said_first():
            if options.keys() >= TABLE_PROPERTIES:
                refuse_table("CREATE TABLE … USING milepost")
            return Columns.of(choice(options, "view", VIEWS), flag(options, "includeHeaders", False)).ddl()

    def reader(self, schema: StructType) -> DataSourceReader:
        from milepost.spark.options import SourceOptions
        from milepost.spark.reader import MilepostReader
        from milepost.spark.worker_errors import said_first

        with said_first():
            self.ensure_options()
            options = SourceOptions.parse(self.options, streaming=False)
            columns = chosen_columns(schema, options.view)
        if options.pushdown:
            from milepost.spark.pushdown_reader import PushdownReader

            return PushdownReader(options, columns)
        return MilepostReader(options, columns)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from milepost.errors import MilepostError
        from milepost.spark.options import SourceOptions
        from milepost.spark.stream_reader import MilepostStreamReader, RefusedStream

        try:
            options = SourceOptions.parse(self.options, streaming=True)
            return MilepostStreamReader(options, chosen_columns(schema, options.view))
        except MilepostError as error:
            return RefusedStream(error)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from milepost.spark.sink.batch_writer import batch_writer
        from milepost.spark.worker_errors import said_first

        with said_first():
            self.ensure_options()
            return batch_writer(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from milepost.spark.sink.stream_writer import stream_writer
        from milepost.spark.worker_errors import said_first

        with said_first():
            return stream_writer(self.options, schema, overwrite)

    def ensure_options(self) -> None:
        """A query without any may have forgotten them, or is one of a table."""
        if not self.options:
            refuse_table("neither path nor kafka.bootstrap.servers is given; if this is a table made by CREATE TABLE … USING milepost")


def refuse_table(what: str) -> NoReturn:
    from milepost.errors import InvalidArgument

    raise InvalidArgument(
        f"{what}: Spark does not give a table's OPTIONS to the source; read CREATE TEMPORARY VIEW … USING milepost OPTIONS "
        "(path '…', subscribe '…'), or SELECT … FROM … WITH (path = '…'), and write with df.write.format(\"milepost\").option(\"path\", …)"
    )


def chosen_columns(schema: StructType, view: str) -> Columns:
    """Those that a schema names: ours, or one that the user gave to read less."""
    from milepost.errors import InvalidArgument
    from milepost.spark.columns import Columns

    for field in schema.fields:
        if not field.nullable:
            raise InvalidArgument(f"column {field.name}: the schema says NOT NULL, and every column of this source may be null")
    return Columns.chosen(view, [(field.name, field.dataType.simpleString()) for field in schema.fields])
