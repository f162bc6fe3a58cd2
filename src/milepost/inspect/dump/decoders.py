"""The content of a record as text: what stands behind `key:` and `payload:` in a dump, and as values in JSON.

    decoder           for                  key and payload
    string            any topic            UTF-8 text; what is not text is shown with replacement characters, in JSON as {"hex": "…"}
    offsets           __consumer_offsets   JSON of the group, offset and member records, as Kafka 3.9 and 4.3 print it
    transaction-log   __transaction_state  JSON as Kafka 4.3 prints it, or the words of 3.9

Which one applies is told from the name of the directory unless it is given.

Unlike Kafka's tool, control characters in text are shown as \\xNN: a record must not be able to move the cursor of a terminal
or to look like another line.
"""

from __future__ import annotations

import json
from types import ModuleType
from typing import Any

from milepost.codec.text import json_of as json_of
from milepost.codec.text import shown as shown
from milepost.codec.text import text_of as text_of
from milepost.errors import InvalidArgument, InvalidRecord
from milepost.record.internal_topics import consumer_offsets, transaction_state

CONSUMER_OFFSETS = "__consumer_offsets-"
TRANSACTION_STATE = "__transaction_state-"
DECODERS = ("auto", "string", "offsets", "transaction-log")
TOOLS = ("4.3", "3.9")


class StringDecoder:
    def texts(self, key: bytes | None, value: bytes | None) -> tuple[str | None, str | None]:
        return None if key is None else text_of(key), None if value is None else text_of(value)

    def values(self, key: bytes | None, value: bytes | None) -> tuple[Any, Any]:
        return json_of(key), json_of(value)


class InternalTopicDecoder(StringDecoder):
    """Records of an internal topic. What does not parse is shown as the plain text it is, with the reason."""

    def __init__(self, topic: ModuleType, tool: str = TOOLS[0]):
        self.topic = topic
        words = tool == "3.9" and topic is transaction_state
        self.describe_key = topic.describe_key_text if words else topic.describe_key
        self.describe_value = topic.describe_value_text if words else topic.describe_value

    def texts(self, key: bytes | None, value: bytes | None) -> tuple[str | None, str | None]:
        if key is None:
            return super().texts(key, value)
        try:
            decoded = self.topic.decode_key(key)
            return shown(self.describe_key(decoded)), shown(self.describe_value(self.topic.decode_value(decoded, value)))
        except InvalidRecord as error:
            plain_key, plain_value = super().texts(key, value)
            return f"{plain_key} <does not parse: {shown(str(error))}>", plain_value

    def values(self, key: bytes | None, value: bytes | None) -> tuple[Any, Any]:
        if key is None:
            return super().values(key, value)
        try:
            decoded = self.topic.decode_key(key)
            described = self.topic.describe_value(self.topic.decode_value(decoded, value)) if value is not None else "null"
            return json.loads(self.topic.describe_key(decoded)), json.loads(described)
        except InvalidRecord:
            return super().values(key, value)


def decoder_for(directory_name: str, name: str = "auto", tool: str = TOOLS[0]) -> StringDecoder:
    if name not in DECODERS:
        raise InvalidArgument(f"decoder {name!r}: known are {', '.join(DECODERS)}")
    if name == "auto" and directory_name.startswith(CONSUMER_OFFSETS):
        name = "offsets"
    elif name == "auto" and directory_name.startswith(TRANSACTION_STATE):
        name = "transaction-log"
    if name == "offsets":
        return InternalTopicDecoder(consumer_offsets, tool)
    return InternalTopicDecoder(transaction_state, tool) if name == "transaction-log" else StringDecoder()
