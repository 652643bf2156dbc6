"""What system tests share: a real server, and the daemon as a real process."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.nats_fixtures import nats_server
from tests.system.daemon import Daemon

__all__ = ["daemon", "nats_server"]


QUICK = {"TREADLE_RUNTIME__LEASE_S": "1.0", "TREADLE_RUNTIME__DUE_S": "0.2"}
"""A killed owner is replaced sooner than by default, so that a test need not wait for it."""


@pytest.fixture
async def daemon(data_dir: Path) -> AsyncGenerator[Daemon]:
    """The refund app's daemon, not started yet."""
    daemon = Daemon(data_dir, env=QUICK)
    yield daemon
    await daemon.close()
