"""Three hundred steps with 4 KB results in a window of 20,000 tokens, over the real SDK."""

import json
from pathlib import Path

import anyio
import pytest

from tests.cases.place import Json, Place, served
from tests.fakes.provider import Say, text, use
from tests.system.apps.long import WINDOW
from tests.system.test_refund import result_of

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]

STEPS = 300
PAGES = [Say(blocks=(use("page", f"toolu_{n:03d}", number=n),)) for n in range(STEPS)]
DONE = Say(blocks=(text("read"),))


def size_of(request: Json) -> int:
    """A token for every byte, the answer's included."""
    sent = [request.get("system"), request.get("tools"), request["messages"]]
    return len(json.dumps(sent, ensure_ascii=False).encode()) + request["max_tokens"]


async def test_every_request_fits_and_nothing_is_lost_with_a_kill_in_between(
    data_dir: Path,
) -> None:
    replies, apps = (*PAGES, DONE), "tests.system.apps"
    async with served(data_dir, "long", *replies, model=None, apps=apps) as (place, fake):
        await place.submit("x1")
        with anyio.fail_after(120):
            while len(fake.requests) < STEPS // 2:  # noqa: ASYNC110 -- another process
                await anyio.sleep(0.01)
        await place.restart("kill")
        async with place.daemon.client("submitter") as client:
            assert (await result_of(client, "x1", within_s=120))["status"] == "SUCCEEDED"
        assert fake.broken == []
        assert max(size_of(request) for request in fake.requests) <= WINDOW
        asked = {r["model"] for r in fake.requests if "tool_choice" in r}
        assert asked == {"claude-haiku-5-5"}, "the summaries, and nothing else"
        await _check_record(place, await place.show("x1"))


async def _check_record(place: Place, shown: Json) -> None:
    """Every result is in the record, whatever the model still saw of it."""
    assert len({item["id"] for item in shown["evidence"]}) >= STEPS - 1, "one may be the kill's"
    # together they are larger than an answer may be, and the answer says so
    assert all("payload" in item or item["omitted"] == "too_large" for item in shown["evidence"])
    async with place.client() as client:
        traced = await client.trace("x1")
    notes = [note for step in traced["steps"] for note in step["notes"]]
    told = [note["message"] for note in notes if note["kind"] == "consulted"]
    assert len(told) > 5
    assert all(words.startswith("summary by claude-") for words in told)
