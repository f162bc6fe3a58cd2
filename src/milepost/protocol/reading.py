"""What generated decoders call where they leave the fast path: long lengths, tagged fields, and everything that is wrong.

Every length is compared with the bytes that are left before anything is made of it, so no frame costs more memory than a small
multiple of its own size:

    string            at most 32,767 bytes, as in Kafka
    array             count x smallest element <= bytes left, and a limit on the elements of one message (`generated`)
    tagged fields     count x 2 <= bytes left, at most MAX_TAGS to a struct, tags rising, content exactly as long as it says
    unsigned varint   5 bytes, 32 bits; Kafka drops bits above those silently, we refuse them

`Damage` is internal: the decoder turns it into `MalformedMessage` with the message, the field and the position.
"""

from __future__ import annotations

from typing import NoReturn

from milepost.codec.buffer import Buffer

MAX_STRING = 32_767
MAX_TAGS = 1_024


class Damage(ValueError):
    pass


class TooMany(Damage):
    """More elements than the decoder may make."""


def more(buffer: Buffer, position: int, first: int) -> tuple[int, int]:
    """An unsigned varint whose first byte, just before `position`, asked for more: the value, and the position behind it."""
    value = first & 0x7F
    for shift in (7, 14, 21):
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    byte = buffer[position]
    if byte > 0x0F:
        raise Damage(f"has a length that does not fit 32 bits in 5 bytes (the fifth is 0x{byte:02x})")
    return value | byte << 28, position + 1


def more_string(buffer: Buffer, position: int, first: int) -> tuple[int, int]:
    length, position = more(buffer, position, first)
    if length > MAX_STRING + 1:
        raise Damage(f"is a string of {length - 1} bytes, {MAX_STRING} are allowed")
    return length, position


def bad_length(length: int, left: int) -> NoReturn:
    if length == -1:
        raise Damage("is null, which this version does not allow")
    if length < 0:
        raise Damage(f"has length {length}")
    raise Damage(f"says {length} bytes, {left} are left")


def bad_count(count: int, smallest: int, left: int) -> NoReturn:
    if count == -1:
        raise Damage("is null, which this version does not allow")
    if count < 0:
        raise Damage(f"has {count} elements")
    raise Damage(f"says {count} elements of at least {smallest} bytes, {left} bytes are left")


def too_many() -> NoReturn:
    raise TooMany("makes more elements than one message may have")


def bad_presence(value: int) -> NoReturn:
    raise Damage(f"begins with {value}; 1 says that a struct follows, -1 that it is null")


def tag_count(buffer: Buffer, position: int, first: int, size: int) -> tuple[int, int]:
    """How many tagged fields follow, and where."""
    count = first
    if first > 127:
        count, position = more(buffer, position, first)
    if count > MAX_TAGS:
        raise Damage(f"has {count} tagged fields, {MAX_TAGS} are allowed")
    if count * 2 > size - position:
        raise Damage(f"says {count} tagged fields of at least 2 bytes, {size - position} bytes are left")
    return count, position


def tag(buffer: Buffer, position: int, last: int, size: int) -> tuple[int, int, int]:
    """The next tagged field: its tag, where its content starts, and where it ends."""
    number = buffer[position]
    position += 1
    if number > 127:
        number, position = more(buffer, position, number)
    if number <= last:
        raise Damage(f"has tag {number} behind tag {last}; tags rise")
    length = buffer[position]
    position += 1
    if length > 127:
        length, position = more(buffer, position, length)
    if length > size - position:
        bad_length(length, size - position)
    return number, position, position + length


def unknown_tags(buffer: Buffer, position: int, first: int, size: int) -> tuple[bytes, int, int]:
    """All the tagged fields of a struct that knows none, as they are; the position behind them; how many there are."""
    count, position = tag_count(buffer, position, first, size)
    start, last = position, -1
    for _ in range(count):
        last, _, position = tag(buffer, position, last, size)
    return bytes(buffer[start:position]), position, count


def tag_misfit(position: int, end: int) -> NoReturn:
    raise Damage(f"ends at {position}; its tagged field ends at {end}")


def describe(error: Exception) -> str:
    """The verb of the sentence: what is wrong with the field that raised `error`."""
    if isinstance(error, Damage):
        return str(error)
    if isinstance(error, UnicodeDecodeError):
        return f"is not UTF-8 ({error.reason} behind {error.start} bytes)"
    return "is cut"
