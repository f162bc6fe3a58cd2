"""Peers that keep a connection and hardly use it: what each costs is bounded, and so is how long.

sends too slowly   of a request that is not complete yet came less than FRAME_BYTES_PER_SECOND, for FRAME_SECONDS. What counts is
                   what has come: who announces a lot gets no more time
takes nothing      answers are ready, and the peer has read none of them for STUCK_SECONDS
does not log in    where it has to, within LOGIN_SECONDS; or its login holds no longer
is silent          for `connections.max.idle.ms`, and waits for no answer
"""

from __future__ import annotations

from milepost.net.channel import Channel

FRAME_SECONDS = 30.0
FRAME_BYTES_PER_SECOND = 64 << 10
STUCK_SECONDS = 30.0
LOGIN_SECONDS = 10.0


def reason_to_close(channel: Channel, now: float, max_idle_seconds: float) -> str | None:
    if channel.principal is None and now > channel.opened_at + LOGIN_SECONDS:
        return f"no login within {LOGIN_SECONDS:.0f} seconds"
    if channel.login_ends is not None and now > channel.login_ends:
        return "its login has ended, and it did not log in again"
    if channel.frame_since is not None and comes_too_slowly(channel, channel.frame_since, now):
        return f"less than {FRAME_BYTES_PER_SECOND} bytes a second of a request arrived, for {FRAME_SECONDS:.0f} seconds"
    if channel.stuck_since is not None and now > channel.stuck_since + STUCK_SECONDS:
        return f"{channel.out_bytes} bytes are ready to send, and none was read for {STUCK_SECONDS:.0f} seconds"
    if now - channel.last_active > max_idle_seconds and not channel.is_muted:
        return f"silent for {max_idle_seconds:.0f} seconds"
    return None


def comes_too_slowly(channel: Channel, since: float, now: float) -> bool:
    if now <= since + FRAME_SECONDS or channel.is_paused_for_memory:
        return False
    received = channel.received_bytes
    if received - channel.frame_bytes < FRAME_SECONDS * FRAME_BYTES_PER_SECOND:
        return True
    channel.restart_frame(now)
    return False
