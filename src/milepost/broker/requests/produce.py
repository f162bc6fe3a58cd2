"""Produce (key 0): see `broker/produce`."""

from milepost.broker.produce.handler import handle

__all__ = ["handle"]
