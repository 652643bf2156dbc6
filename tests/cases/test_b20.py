"""Case B20: cached tokens are counted once, at the right price, and inside the budget.

The model's list price is the case's: 3, 15, 0.30 and 3.75 USD per million tokens.
"""

from pathlib import Path

import pytest

from tests.cases.apps.script import case_of
from tests.cases.place import Json, said, served

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

RUN = "b20-run"
CASE = case_of("b20")
FIRST, SECOND, LAST = (said(turn) for turn in CASE["model_turns"])
MODEL = "claude-sonnet-4-6"


def spent(shown: Json) -> tuple[int, str]:
    return shown["usage"]["tokens"], shown["usage"]["usd"]


async def test_a_budget_that_is_passed_asks_no_third_time(data_dir: Path) -> None:
    """The provider reports 10,070 tokens for a request of far fewer bytes than that.

    So the second request is the last turn already, from what was kept back; that the provider
    ignores that it has no tools is recorded, and its call is not executed.
    """
    async with served(data_dir, "b20", FIRST, SECOND, LAST, model=MODEL) as (place, fake):
        await place.submit(RUN, limits={"max_tokens": CASE["setup"]["budget"]["tokens"]})
        result = await place.result(RUN)
        assert (result["status"], result["reason"]) == ("BUDGET_EXHAUSTED", "max_tokens")
        assert len(fake.requests) == 2
        assert "tools" not in fake.requests[1]
        assert spent(await place.show(RUN)) == (20_140, "0.01452")
        assert [e["tool"] for e in await place.events(RUN, "observed")] == ["lookup"]
        first, _ = await place.events(RUN, "decided")
        assert first["over_reservation"] is True
        [finished] = await place.events(RUN, "finished")
        assert "called tools although it had none" in finished["why"]
        assert fake.broken == []


async def test_each_turn_costs_what_it_says_and_nothing_said_is_nothing(data_dir: Path) -> None:
    async with served(data_dir, "b20", FIRST, SECOND, LAST, model=MODEL) as (place, fake):
        await place.submit(RUN, inputs={"text": "x" * 12_000})  # a prompt worth its cache
        result = await place.result(RUN)
        assert (result["status"], result["output"]) == ("SUCCEEDED", "never reached")
        shown = await place.show(RUN)
        # 3 x 20 and 3 x 50, cached ones in two turns only; null is nothing
        assert shown["usage"]["cache_read_tokens"] == 18_000
        assert shown["usage"]["cache_write_tokens"] == 2_000
        assert spent(shown) == (20_210, "0.01533")
        charged = [(e["tokens"], e["usd"]) for e in await place.events(RUN, "decided")]
        assert charged == [(10_070, "0.00726"), (10_070, "0.00726"), (70, "0.00081")]
        assert len(fake.requests) == 3
