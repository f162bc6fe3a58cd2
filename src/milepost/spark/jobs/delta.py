"""A commit of an export as a version of a Delta table, through the package `deltalake`: no jar, no cluster.

The files lie in their places already; the version that names them is written to the table's own log. It carries the number of the commit as
an application transaction (`txn` in Delta's protocol), so that a commit that is added again, after a crash, is recognized and left alone. A
reader sees all files of a commit or none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from milepost.errors import InvalidConfiguration
from milepost.spark.columns import RECORDS, Columns

if TYPE_CHECKING:
    import pyarrow as pa

    from milepost.spark.jobs.export_state import ExportCommit

APPLICATION = "milepost-export"


def ensure_deltalake() -> None:
    try:
        import deltalake  # noqa: F401
    except ImportError:
        raise InvalidConfiguration("Delta tables need the package deltalake; run pip install 'milepost[delta]'") from None


def add_to_table(target: str, commit: ExportCommit, columns: tuple[str, ...], now_ms: int) -> None:
    """Add the files of the commit as one version; nothing when the table has it."""
    from deltalake import CommitProperties, DeltaTable, Schema, Transaction
    from deltalake.transaction import AddAction, create_table_with_add_actions

    exists = DeltaTable.is_deltatable(target)
    if exists and (DeltaTable(target).transaction_version(APPLICATION) or 0) >= commit.number:
        return
    actions: list[Any] = [
        AddAction(file.path, file.size, file.partition_values, now_ms, True, f'{{"numRecords": {file.rows}}}')
        for file in commit.files
    ]
    properties = CommitProperties(
        custom_metadata={"milepost.commit": str(commit.number), "milepost.run": commit.run},
        app_transactions=[Transaction(APPLICATION, commit.number, now_ms)],
    )
    partition_by = list(commit.files[0].partition_values) if commit.files else partition_columns(commit.settings["partition_by"])
    schema = Schema.from_arrow(table_schema(columns, partition_by))
    if exists:
        DeltaTable(target).create_write_transaction(actions, "append", schema, partition_by, commit_properties=properties)
    else:
        create_table_with_add_actions(target, schema, actions, "error", partition_by, commit_properties=properties)


def partition_columns(partition_by: str) -> list[str]:
    return {"hour": ["date", "hour"], "date": ["date"]}.get(partition_by, [])


def table_schema(columns: tuple[str, ...], partition_by: list[str]) -> pa.Schema:
    """Those of the files, and the two that are only in the names of directories."""
    import pyarrow as pa

    schema = Columns(RECORDS, columns).arrow_schema()
    for name in partition_by:
        schema = schema.append(pa.field(name, pa.date32() if name == "date" else pa.int32()))
    return schema
