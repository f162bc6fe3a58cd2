"""Maintenance that fails ends where it failed: the next log, the next chore and the broker go on.

    what was raised       what follows
    an error of the disk  the log's directory goes offline; a full disk is waited out, as for an append
    anything else         it is logged, with its traceback unless it is an error raised on purpose
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from milepost.errors import MilepostError

logger = logging.getLogger("milepost.log")


class WorkedOnLog(Protocol):
    is_failed: bool
    is_closed: bool

    def refuse(self, error: OSError) -> MilepostError:
        """The error that callers get instead; the log's directory goes offline unless the disk is only full."""
        ...


@contextmanager
def contained(what: str, log: WorkedOnLog | None = None) -> Iterator[None]:
    """Nothing that is raised inside leaves; `log` is the one that is worked on, if it is one."""
    try:
        yield
    except MilepostError as error:
        logger.error("%s failed: %s", what, error)
    except OSError as error:
        if log is None:
            logger.error("%s failed: %s", what, error)
        elif not (log.is_failed or log.is_closed):
            logger.error("%s failed: %s", what, log.refuse(error))
    except Exception:
        logger.exception("%s failed; it is tried again when it is due again", what)
