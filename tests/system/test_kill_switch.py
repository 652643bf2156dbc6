"""``pause --all``: what is under way ends its call; then nothing is asked until ``resume``."""

import subprocess
import sys
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from tests.cases.place import Place, served
from tests.cases.test_b20 import FIRST, LAST
from tests.fakes.provider import Say

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]


async def _cli(place: Place, *args: str) -> None:
    line = [sys.executable, "-m", "treadle.cli.main", "--data-dir", str(place.data_dir), *args]
    await anyio.to_thread.run_sync(lambda: subprocess.run(line, check=True, timeout=30))


async def test_held_is_held_for_old_runs_and_new_ones(data_dir: Path) -> None:
    slow = Say(blocks=FIRST.blocks, usage=FIRST.usage, trickle_s=0.3)
    replies = (slow, LAST, LAST)
    async with served(data_dir, "b20", *replies, model="claude-sonnet-4-6") as (place, fake):
        await place.submit("old", inputs={"text": "x" * 12_000})
        with anyio.fail_after(20):
            while not fake.requests:  # noqa: ASYNC110 -- another process's request
                await anyio.sleep(0.01)
        await _cli(place, "pause", "--all", "--yes")
        await place.submit("new")
        await anyio.sleep(4)  # due is asked for every second
        assert len(fake.requests) == 1, "the one that was under way"
        assert (await place.show("new"))["status"] == "QUEUED"
        await _cli(place, "resume", "--all")
        assert (await place.result("old"))["status"] == "SUCCEEDED"
        assert (await place.result("new"))["status"] == "SUCCEEDED"
        assert fake.broken == []
