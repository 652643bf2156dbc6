"""A role of an agent may have a model of its own: asked, priced and recorded as such."""

from pathlib import Path

import pytest

from tests.cases.place import served
from tests.fakes.provider import Say, text, use

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

USAGE = {"input_tokens": 1_000, "output_tokens": 100}
REPLIES = (
    Say(blocks=(use("lookup", "toolu_1", key="a"),), usage=USAGE),
    Say(blocks=(text("a is known"),), usage=USAGE),
)


@pytest.mark.parametrize(
    ("override", "asked", "usd"),
    [
        # 1,000 x 4 + 100 x 20, then 1,000 x 0.10 + 100 x 0.50 USD per million
        (None, ["claude-opus-5-5", "claude-haiku-5-5"], ["0.006", "0.00015"]),
        ("claude-opus-5", ["claude-opus-5"] * 2, ["0.0075"] * 2),
    ],
    ids=["its own", "one for all"],
)
async def test_the_last_turn_is_asked_of_its_own_model(
    data_dir: Path, override: str | None, asked: list[str], usd: list[str]
) -> None:
    apps = "tests.system.apps"
    async with served(data_dir, "two", *REPLIES, model=override, apps=apps) as (place, fake):
        await place.submit("x1")
        result = await place.result("x1")
        assert (result["status"], result["output"]) == ("BUDGET_EXHAUSTED", "a is known")
        assert [request["model"] for request in fake.requests] == asked
        decided = await place.events("x1", "decided")
        assert [event["usd"] for event in decided] == usd
        assert fake.broken == []
