"""A client of a running Treadle: submit, look, decide. ``Client`` is the whole of it."""

from treadle.client.client import Client
from treadle.client.feed import EventFeed

__all__ = ["Client", "EventFeed"]
