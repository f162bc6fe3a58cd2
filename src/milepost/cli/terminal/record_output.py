"""Records on the standard output, as lines.

fields   those asked for, in this order: timestamp partition offset key headers value; a tab between them, or what was asked for
bytes    into a file or pipe they go as they are; on a terminal control characters are shown as \\xNN
null     is the word null; JSON tells it from the text
json     {"topic", "partition", "offset", "timestamp", "key", "value", "headers": [[key, value], …]}; what is not UTF-8 is {"hex": "…"}
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from milepost.cli.terminal.output import failed_output
from milepost.codec.text import json_of, text_of
from milepost.record.records import Record, header_key_to_bytes
from milepost.topic_partition import TopicPartition

FIELDS = ("timestamp", "partition", "offset", "key", "headers", "value")


class RecordOutput:
    def __init__(self, fields: Sequence[str] = ("value",), separator: str = "\t", as_json: bool = False):
        self._fields = [field for field in FIELDS if field in fields]
        self._separator = separator.encode("utf-8", "surrogateescape")
        self._as_json = as_json
        self._is_terminal = sys.stdout.isatty()
        self._out = sys.stdout.buffer

    def write(self, partition: TopicPartition, record: Record) -> None:
        line = self._json(partition, record) if self._as_json else self._text(partition, record)
        try:
            self._out.write(line + b"\n")
        except OSError as error:
            raise failed_output(error) from error

    def flush(self) -> None:
        try:
            self._out.flush()
        except OSError as error:
            raise failed_output(error) from error

    def _text(self, partition: TopicPartition, record: Record) -> bytes:
        return self._separator.join(self._shown(self._field(field, partition, record)) for field in self._fields)

    def _field(self, field: str, partition: TopicPartition, record: Record) -> bytes:
        if field == "value":
            return b"null" if record.value is None else record.value
        if field == "key":
            return b"null" if record.key is None else record.key
        if field == "headers":
            return b",".join(
                header_key_to_bytes(key) + b":" + (b"null" if value is None else value) for key, value in record.headers
            )
        numbers = {"timestamp": record.timestamp, "partition": partition.partition, "offset": record.offset}
        return b"%d" % numbers[field]

    def _shown(self, content: bytes) -> bytes:
        return text_of(content).encode() if self._is_terminal else content

    def _json(self, partition: TopicPartition, record: Record) -> bytes:
        fields = {
            "topic": partition.topic,
            "partition": partition.partition,
            "offset": record.offset,
            "timestamp": record.timestamp,
            "key": json_of(record.key),
            "value": json_of(record.value),
            "headers": [[json_of(header_key_to_bytes(key)), json_of(value)] for key, value in record.headers],
        }
        return json.dumps(fields).encode()
