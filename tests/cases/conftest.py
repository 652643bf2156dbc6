"""A place for the case that a test module is named after."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.cases.place import ENV, Place
from tests.system.daemon import Daemon


@pytest.fixture
async def place(request: pytest.FixtureRequest, data_dir: Path) -> AsyncGenerator[Place]:
    """The case's own daemon, serving."""
    case = request.path.stem.removeprefix("test_")
    daemon = Daemon(data_dir, app=f"tests.cases.apps.{case}:app", env=ENV)
    place = Place(daemon, case)
    try:
        await place.daemon.up()
        yield place
    finally:
        await place.daemon.close()
