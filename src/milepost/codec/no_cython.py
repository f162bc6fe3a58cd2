"""Stands in for `cython` where a module that is meant to be compiled runs as plain Python.

Such modules open with

    try:
        import cython
    except ImportError:
        from milepost.codec import no_cython as cython

and use of it only what is here: decorators that do nothing, a cast and a declaration that return their value,
names of C types. The module that Cython installs under its own name does the same, but its casts build objects:
the kernel runs several times slower with it, and takes this one whenever it is not compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])


class _TypeOfTypes:
    """`const[uchar]`, `pointer[longlong]`"""

    def __getitem__(self, _type: object) -> object:
        return self


compiled = False
bint = uchar = int = uint = longlong = ulonglong = size_t = Py_ssize_t = void = object()
const = pointer = _TypeOfTypes()


def cfunc(function: Function) -> Function:
    return function


inline = cclass = cfunc


def locals(**_types: object) -> Callable[[Function], Function]:
    return cfunc


def returns(_type: object) -> Callable[[Function], Function]:
    return cfunc


def exceptval(value: object = None, *, check: bool = False) -> Callable[[Function], Function]:
    return cfunc


def cast(_type: object, value: Any) -> Any:
    return value


def typedef(_type: object) -> object:
    return _type


def declare(_type: object, value: Any = None) -> Any:
    return value


class _NoGil:
    """`@cython.nogil` on a function, `with cython.nogil:` around a block."""

    def __call__(self, function: Function) -> Function:
        return function

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass


nogil = _NoGil()
