"""A message as Kafka's JsonConverters print it: for comparison with the recorded readings."""

from __future__ import annotations

import base64
from typing import Any

from milepost.protocol.schema import Field

SPELLED_OTHERWISE = {"isKraftController": "isKRaftController"}


def as_kafka_json(message: Any, version: int) -> dict[str, Any]:
    printed = {}
    for field in message._schema.fields:
        value = getattr(message, field.name)
        # Kafka prints a tagged field only where it would write it.
        if field.exists_in(version) and not (field.tag is not None and value in (field.default, [])):
            name = camel_case(field.name)
            if field.type == "records":
                printed[f"{name}SizeInBytes"] = None if value is None else len(value)
            else:
                printed[name] = json_value(field, value, version)
    return printed


def json_value(field: Field, value: Any, version: int) -> Any:
    if isinstance(value, list):
        return [json_value(field, element, version) for element in value]
    if value is None:
        return None
    if field.struct is not None:
        return as_kafka_json(value, version)
    if field.type == "bytes":
        return base64.b64encode(value).decode()
    if field.type == "uuid":
        return base64.urlsafe_b64encode(value).decode().rstrip("=")
    return value


def camel_case(name: str) -> str:
    first, *rest = name.split("_")
    camel = first + "".join(word[:1].upper() + word[1:] for word in rest)
    return SPELLED_OTHERWISE.get(camel, camel)
