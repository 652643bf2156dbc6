"""A real nats-server and connections to it, for every suite that needs one.

A conftest imports the fixtures it wants by name. A server starts in about 40 ms, so each test gets
its own, with nothing in it.
"""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from runtime.bus.server import EmbeddedServer
from runtime.bus.wire import Pace

QUICK = Pace(heartbeat_s=0.05, silence_s=0.6, sweep_s=0.01, skew_s=0.0)
"""Heartbeats and limits that a test can wait for."""


@pytest.fixture
async def nats_server(tmp_path: Path) -> AsyncGenerator[EmbeddedServer]:
    """A server of this test alone."""
    async with EmbeddedServer(tmp_path / "nats-data") as server:
        yield server
