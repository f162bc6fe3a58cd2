"""Directories as options name them, and where they are for everybody: a task runs in a directory of its own, on a machine of its own.

    data · /a,/b · ["/a", "/b"]    one path, several separated by commas, or a JSON list (what Spark makes of `load` with a list)
    file:///data                   a local or mounted file system; other schemes are refused

A relative path means the driver's directory and is made absolute there, once. A Spark Connect server gives each session a scratch
directory, which is removed with it: there a relative path means nothing and is refused.
"""

from __future__ import annotations

import json
import os
import posixpath

from milepost.errors import InvalidArgument


def parse_paths(text: str) -> tuple[str, ...]:
    if text.strip().startswith("["):
        try:
            found = json.loads(text)
        except ValueError as error:
            raise InvalidArgument(f"path is {text!r}; it looks like a JSON list and does not parse: {error}") from None
        names = [str(each) for each in found]
    else:
        names = text.split(",")
    paths = tuple(dict.fromkeys(_local(name.strip()) for name in names if name.strip()))
    if not paths:
        raise InvalidArgument("path is empty; a data directory is expected")
    return paths


def absolute(path: str, option: str) -> str:
    """As this process means it."""
    if not path.startswith("/") and is_in_a_connect_session():
        raise InvalidArgument(
            f"{option} is {path}, a relative path, and a Spark Connect server runs queries in scratch directories that it removes; "
            "give an absolute path, as the server sees it"
        )
    return posixpath.abspath(path)


def is_in_a_connect_session() -> bool:
    """Spark names the session in the environment of its workers; without Spark Connect it is the default one."""
    return os.environ.get("SPARK_JOB_ARTIFACT_UUID", "default") != "default"


def is_below(path: str, directory: str) -> bool:
    root = posixpath.abspath(directory).rstrip("/")
    return posixpath.abspath(path) == root or posixpath.abspath(path).startswith(root + "/")


def _local(path: str) -> str:
    scheme, separator, rest = path.partition(":/")
    if not separator:
        return path
    if scheme.lower() == "file":
        return "/" + rest.lstrip("/")
    raise InvalidArgument(
        f"path is {path}; segment files are read from a local or mounted file system, and {scheme}: is neither. "
        "Mount it, or copy the directory first"
    )
