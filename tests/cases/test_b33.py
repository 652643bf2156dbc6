"""Case B33: a very large tool result."""

import json
from pathlib import Path

import pytest

from tests.cases.apps.b33 import FACES, WINDOW, WORDS
from tests.cases.apps.script import case_of
from tests.cases.place import Json, Place, results, said, served
from tests.fakes.provider import FakeProvider, Say, use
from treadle import Client

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(180)]

RUN = "b33-run"
CASE = case_of("b33")
FIRST, THREE, LAST = (said(turn) for turn in CASE["model_turns"])
MORE = Say(blocks=(use("read_result", "toolu_09", evidence="ev-1", offset=1_000_000),))


async def test_what_is_shown_is_cut_between_characters_and_fits(data_dir: Path) -> None:
    async with served(data_dir, "b33", FIRST, THREE, MORE, LAST) as (place, fake):
        await place.submit(RUN)
        result = await place.result(RUN)
        assert (result["status"], result["output"]) == ("SUCCEEDED", "summarised")
        _check_sizes(fake)
        [one] = results(fake.requests[1])
        _check_cut(one["content"], FACES, "ev-1")
        for place_in_turn, shown in enumerate(results(fake.requests[2]), start=2):
            _check_cut(shown["content"], WORDS, f"ev-{place_in_turn}")
        [more] = results(fake.requests[3])
        assert more["content"]["data"]["characters"] == len(FACES)
        assert set(more["content"]["data"]["text"]) == {"😀"}
        assert more["content"]["data"]["offset"] == 1_000_000
        await _check_record(place)


def _check_sizes(fake: FakeProvider) -> None:
    """Every request is under the window, also where three results come together."""
    assert fake.broken == []
    for request in fake.requests:
        sent = json.dumps(request["messages"], ensure_ascii=False).encode()
        assert len(sent) + request["max_tokens"] < WINDOW
        assert "\ufffd".encode() not in sent


def _check_cut(shown: Json, whole: str, evidence: str) -> None:
    kept = shown["data"]
    assert whole.startswith(kept)
    assert len(kept) >= 200
    assert f"the first {len(kept)} of {len(whole)} characters" in shown["cut"]
    assert f"read_result(evidence='{evidence}', offset={len(kept)})" in shown["cut"]


async def _check_record(place: Place) -> None:
    """The whole is stored once and can be read by reference, also by another process later."""
    shown = await place.show(RUN)
    refs = [item.get("ref") for item in shown["evidence"][:4]]
    assert None not in refs
    assert len(set(refs)) == 2, "equal results are one artifact"
    assert await place.daemon.stop() == 0
    await place.daemon.up()
    async with Client.connect(place.data_dir) as client:
        assert (await client.show(RUN))["evidence"] == shown["evidence"]
