"""Why a connection is not read: every state and what may happen in it."""

from __future__ import annotations

import pytest

from milepost.net.mute_state import MuteEvent, MuteState, after

FREE, MUTED = MuteState.NOT_MUTED, MuteState.MUTED
BOTH, THROTTLED = MuteState.MUTED_AND_THROTTLED, MuteState.THROTTLED
RECEIVED, SENT = MuteEvent.REQUEST_RECEIVED, MuteEvent.ANSWER_SENT
BEGINS, ENDS = MuteEvent.THROTTLE_STARTED, MuteEvent.THROTTLE_ENDED

ALLOWED = {
    (FREE, RECEIVED): MUTED,
    (MUTED, SENT): FREE,
    (MUTED, BEGINS): BOTH,
    (BOTH, SENT): THROTTLED,
    (BOTH, ENDS): MUTED,
    (THROTTLED, ENDS): FREE,
}


@pytest.mark.parametrize("state", list(MuteState))
@pytest.mark.parametrize("event", list(MuteEvent))
def test_what_follows_each_event_in_each_state(state, event):
    if (state, event) in ALLOWED:
        assert after(state, event) is ALLOWED[state, event]
    else:
        with pytest.raises(KeyError):
            after(state, event)


@pytest.mark.parametrize("events", [(RECEIVED, SENT), (RECEIVED, BEGINS, SENT, ENDS), (RECEIVED, BEGINS, ENDS, SENT)])
def test_every_way_through_ends_with_a_connection_that_is_read(events):
    state = FREE
    for event in events:
        state = after(state, event)
    assert state is FREE
