# cython: language_level=3
#
# The C of codec/octets.py, by the same names: inlined into each compiled module that cimports it, since C functions of Cython
# call each other directly only within one module. What each does is said there.

from cpython.buffer cimport Py_buffer
from libc.string cimport memcpy

cdef extern from "Python.h":
    Py_buffer* PyMemoryView_GET_BUFFER(object view)

cdef enum:
    CUT = 1
    ENDLESS = 2
    TOO_WIDE = 3


cdef inline unsigned char* octets_of(object view) except? NULL:
    cdef Py_buffer* buffer = PyMemoryView_GET_BUFFER(view)
    if buffer.ndim != 1 or buffer.itemsize != 1 or buffer.strides[0] != 1:
        raise BufferError("the view is not of bytes, one behind the other")
    return <unsigned char*> buffer.buf


cdef inline long long int32_at(const unsigned char* data, Py_ssize_t at) noexcept nogil:
    return <int> (
        <unsigned int> data[at] << 24 | <unsigned int> data[at + 1] << 16 | <unsigned int> data[at + 2] << 8 | data[at + 3]
    )


cdef inline long long int64_at(const unsigned char* data, Py_ssize_t at) noexcept nogil:
    return <long long> (<unsigned long long> int32_at(data, at) << 32 | <unsigned int> int32_at(data, at + 4))


cdef inline (long long, Py_ssize_t) varint_at(const unsigned char* data, Py_ssize_t at, Py_ssize_t end, int bits) noexcept nogil:
    cdef long long byte
    if at >= end:
        return 0, -CUT
    byte = data[at]
    if byte < 0x80:  # nearly every number of a record
        return (byte >> 1) ^ -(byte & 1), at + 1
    return _rest_of_varint(data, at + 1, end, bits, byte & 0x7F)


cdef inline (long long, Py_ssize_t) _rest_of_varint(
    const unsigned char* data, Py_ssize_t at, Py_ssize_t end, int bits, unsigned long long raw
) noexcept nogil:
    cdef unsigned long long byte
    cdef int shift = 7
    while at < end:
        byte = data[at]
        at += 1
        if shift > bits - 7 and byte >> (bits - shift) != 0:
            return 0, -(ENDLESS if byte >= 0x80 else TOO_WIDE)
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            return <long long> ((raw >> 1) ^ -(raw & 1)), at
        shift += 7
    return 0, -CUT


cdef inline (long long, Py_ssize_t) checked_varint_at(const unsigned char* data, Py_ssize_t at, Py_ssize_t end) noexcept nogil:
    cdef unsigned long long raw = 0, byte
    cdef int shift = 0
    while at < end and shift < 70:
        byte = data[at]
        at += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            return <long long> ((raw >> 1) ^ -(raw & 1)), at
        shift += 7
    return 0, -1


cdef inline unsigned long long _zigzag(long long value) noexcept nogil:
    return (<unsigned long long> value << 1) ^ <unsigned long long> (value >> 63)


cdef inline long long varint_size(long long value) noexcept nogil:
    cdef unsigned long long raw = _zigzag(value)
    cdef long long size = 1
    while raw > 0x7F:
        raw >>= 7
        size += 1
    return size


cdef inline Py_ssize_t put_varint(unsigned char* target, Py_ssize_t at, long long value) noexcept nogil:
    cdef unsigned long long raw = _zigzag(value)
    while raw > 0x7F:
        target[at] = raw & 0x7F | 0x80
        raw >>= 7
        at += 1
    target[at] = raw
    return at + 1


cdef inline Py_ssize_t put_bytes(
    unsigned char* target, Py_ssize_t at, const unsigned char* data, Py_ssize_t start, Py_ssize_t size
) noexcept nogil:
    if size <= 0:
        return at
    memcpy(target + at, data + start, size)
    return at + size


# Unsigned, where the overflow of a signed sum has no meaning in C.


cdef inline long long plus(long long left, long long right) noexcept nogil:
    return <long long> (<unsigned long long> left + <unsigned long long> right)


cdef inline long long minus(long long left, long long right) noexcept nogil:
    return <long long> (<unsigned long long> left - <unsigned long long> right)
