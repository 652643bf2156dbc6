"""The gateway: intake of tasks and the public API. See ``actors.gateway.actor``."""

from actors.gateway.actor import Gateway

__all__ = ["Gateway"]
