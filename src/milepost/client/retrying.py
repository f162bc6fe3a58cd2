"""How often and how long a request is tried again.

A request is tried again when the broker's error says that it may go better later (`RETRIABLE`), or when the connection
was lost. The pauses double from `first_pause` to `longest_pause`; there are at most `attempts` attempts, and none begins after
`timeout` seconds: long enough for a broker to restart. Then the last error is the answer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from milepost.codec.text import shown
from milepost.errors import BrokerUnavailable, MilepostError, RequestFailed
from milepost.protocol.error_codes import RETRIABLE, error_name


@dataclass(frozen=True, slots=True)
class Retries:
    attempts: int = 40
    first_pause: float = 0.05
    longest_pause: float = 1.0
    timeout: float = 30.0
    sleep: Callable[[float], None] = time.sleep
    monotonic: Callable[[], float] = time.monotonic

    def rounds(self, attempts: int | None = None) -> Iterator[bool]:
        """Goes on for as long as there may be another attempt, pausing before each but the first; True: it is the last."""
        end = self.monotonic() + self.timeout
        attempts = self.attempts if attempts is None else min(attempts, self.attempts)
        pause = self.first_pause
        for number in range(1, attempts + 1):
            is_last = number == attempts or self.monotonic() + pause >= end
            yield is_last
            if is_last:
                return
            self.sleep(pause)
            pause = min(2 * pause, self.longest_pause)


def is_worth_another_try(error: MilepostError) -> bool:
    return isinstance(error, BrokerUnavailable) or (isinstance(error, RequestFailed) and error.code in RETRIABLE)


def failed(what: str, code: int, message: str | None = None) -> RequestFailed:
    """The sentence for an error code: what was asked for, the code's name and number, and what the broker says about it."""
    # A stranger's text, and it ends up on a terminal.
    told = f": {shown(message)}" if message and message != error_name(code) else ""
    return RequestFailed(f"{what}: the broker answers {error_name(code)} ({code}){told}", code)
