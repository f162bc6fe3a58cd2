"""A cluster whose every client is taken for one of its brokers."""

from __future__ import annotations

from milepost.net.channel import Channel


class EverybodyIsABroker:
    def is_broker(self, channel: Channel) -> bool:
        return True
