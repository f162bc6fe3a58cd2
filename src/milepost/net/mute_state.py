"""Why a connection is not being read: one mechanism for order, back-pressure and throttling.

A connection is muted as soon as a request of it is on its way, and read again when the answer has left and any
throttle is over. So a client's requests are handled one at a time, in order, and a client that is over its quota
waits in its own socket buffer. (A request that is read ahead of counts as answered here: see response_order.)

    state                      request received   answer sent   throttle starts              throttle ends
    NOT_MUTED                  MUTED              -             -                            -
    MUTED                      -                  NOT_MUTED     MUTED_AND_THROTTLED          -
    MUTED_AND_THROTTLED        -                  THROTTLED     -                            MUTED
    THROTTLED                  -                  -             -                            NOT_MUTED

MUTED: the response is still pending. (Kafka splits MUTED by whether the request or only the response is pending; nothing
depends on it.)
"""

from __future__ import annotations

import enum


class MuteState(enum.Enum):
    NOT_MUTED = "not muted"
    MUTED = "muted"
    MUTED_AND_THROTTLED = "muted and throttled"
    THROTTLED = "throttled"


class MuteEvent(enum.Enum):
    REQUEST_RECEIVED = "request received"
    ANSWER_SENT = "answer sent"
    THROTTLE_STARTED = "throttle starts"
    THROTTLE_ENDED = "throttle ends"


TRANSITIONS = {
    (MuteState.NOT_MUTED, MuteEvent.REQUEST_RECEIVED): MuteState.MUTED,
    (MuteState.MUTED, MuteEvent.ANSWER_SENT): MuteState.NOT_MUTED,
    (MuteState.MUTED, MuteEvent.THROTTLE_STARTED): MuteState.MUTED_AND_THROTTLED,
    (MuteState.MUTED_AND_THROTTLED, MuteEvent.ANSWER_SENT): MuteState.THROTTLED,
    (MuteState.MUTED_AND_THROTTLED, MuteEvent.THROTTLE_ENDED): MuteState.MUTED,
    (MuteState.THROTTLED, MuteEvent.THROTTLE_ENDED): MuteState.NOT_MUTED,
}


def after(state: MuteState, event: MuteEvent) -> MuteState:
    return TRANSITIONS[state, event]
