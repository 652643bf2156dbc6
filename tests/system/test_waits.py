"""A run that waits holds nothing; no death of the process shortens, repeats or loses its wait."""

import time
from collections.abc import AsyncGenerator
from datetime import datetime
from pathlib import Path

import anyio
import pytest

from tests.cases.place import ENV, Json, Place
from tests.system.daemon import Daemon

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

RUN = "waits-run"


@pytest.fixture
async def place(data_dir: Path) -> AsyncGenerator[Place]:
    daemon = Daemon(data_dir, app="tests.system.apps.waits:app", env=ENV)
    try:
        await daemon.up()
        yield Place(daemon, "waits")
    finally:
        await daemon.close()


def moment(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


async def _waiting(place: Place, variant: str) -> Json:
    """The run once it waits: shown with its end, driven by nobody."""
    await place.submit(RUN, variant=variant)
    shown = await place.until(RUN, "WAITING")
    assert shown["reason"] == "timer"
    assert len(await place.happened()) == 1
    async with place.client() as client:
        actors = (await client.actors())["actors"]
    assert sum(row["running"] + row["pending"] for row in actors) == 0
    return shown


async def _continued_once(place: Place, until: float) -> None:
    result = await place.result(RUN)
    assert (result["status"], result["output"]) == ("SUCCEEDED", "pending")
    [resumed] = await place.events(RUN, "resumed")
    assert moment(resumed["at"]) >= until, "not before its time"
    assert len(await place.events(RUN, "suspended")) == 1
    assert len(await place.events(RUN, "decided")) == len(await place.requests()) == 4
    assert [line["kind"] for line in await place.happened()] == ["read", "read"]


async def test_a_kill_in_the_middle_of_a_wait_changes_nothing_of_it(place: Place) -> None:
    shown = await _waiting(place, "long")
    await place.restart("kill")
    again = await place.show(RUN)
    assert (again["status"], again["until"]) == ("WAITING", shown["until"])
    assert time.time() < moment(shown["until"]), "the machine was too slow for this test"
    await _continued_once(place, moment(shown["until"]))


async def test_a_wait_that_ends_while_nobody_is_there_goes_on_afterwards(place: Place) -> None:
    shown = await _waiting(place, "short")
    await place.daemon.kill()
    await anyio.sleep(max(moment(shown["until"]) - time.time(), 0) + 0.2)
    await place.daemon.up()
    await _continued_once(place, moment(shown["until"]))
