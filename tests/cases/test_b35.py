"""Case B35: a rate limit with retry-after, short and very long."""

import math
import time
from datetime import datetime
from email.utils import formatdate
from itertools import pairwise
from pathlib import Path

import pytest

from tests.cases.apps.script import case_of
from tests.cases.place import Place, said, served
from tests.fakes.provider import Refuse

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

RUN = "b35-run"
_, CALL, END = case_of("b35")["model_turns"]
TURNS = (said(CALL), said(END))
DAY_S = 86_400


def limited(after: str) -> Refuse:
    return Refuse(status=429, type="rate_limit_error", headers={"retry-after": after})


def until_a_date() -> Refuse:
    """Three seconds from now; an HTTP date knows whole seconds only."""
    at = math.ceil(time.time()) + 3  # the provider's clock
    return limited(formatdate(at, usegmt=True))


@pytest.mark.parametrize("variant", ["a", "c"])
async def test_a_short_limit_is_kept_and_one_layer_retries(data_dir: Path, variant: str) -> None:
    replies, least_s = ([limited("2")] * 2, 2.0) if variant == "a" else ([until_a_date], 3.0)
    async with served(data_dir, "b35", *replies, *TURNS) as (place, fake):
        await place.submit(RUN)
        result = await place.result(RUN)
        assert (result["status"], result["output"]) == ("SUCCEEDED", "ok")
        # for step 1 the server sees 3 and 2 requests, not more
        assert len(fake.requests) == len(replies) + 2
        gaps = [later - earlier for earlier, later in pairwise(fake.times)]
        assert all(gap >= least_s for gap in gaps[: len(replies)]), gaps
        shown = await place.show(RUN)
        assert (shown["step_count"], shown["usage"]["tokens"]) == (2, 240), "a refusal is free"
        # waiting is shown apart from working time
        assert shown["usage"]["suspended_seconds"] >= least_s * len(replies) - 0.5
        assert shown["usage"]["active_seconds"] < shown["usage"]["suspended_seconds"]


async def test_a_day_is_waited_for_by_nobody_and_kept_over_a_restart(data_dir: Path) -> None:
    async with served(data_dir, "b35", limited(str(DAY_S)), *TURNS) as (place, fake):
        await place.submit(RUN)
        waiting = await place.until(RUN, "WAITING")
        assert waiting["reason"] == "retry_after"
        until = await due(place, RUN)
        assert until - fake.times[0] >= DAY_S
        # other runs go on at once
        await place.submit("b35-other")
        assert (await place.result("b35-other"))["status"] == "SUCCEEDED"
        # a restart keeps the due time
        await place.restart("kill")
        assert await due(place, RUN) == until
        assert (await place.show(RUN))["status"] == "WAITING"
        # and the run can be cancelled at once
        async with place.client() as operator:
            await operator.cancel(RUN)
        assert (await place.result(RUN))["status"] == "CANCELLED"
        assert len(fake.requests) == 3


async def due(place: Place, run_id: str) -> float:
    """Until when a run waits, in epoch seconds."""
    [suspended] = await place.events(run_id, "suspended")
    return datetime.fromisoformat(suspended["until"]).timestamp()


async def test_a_result_that_talks_of_a_limit_is_none(data_dir: Path) -> None:
    async with served(data_dir, "b35", *TURNS) as (place, fake):
        await place.submit(RUN)
        assert (await place.result(RUN))["status"] == "SUCCEEDED"
        assert len(fake.requests) == 2
