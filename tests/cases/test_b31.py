"""Case B31: half a surrogate pair in a tool's result, in an error's text and in a key."""

from pathlib import Path

import anyio
import pytest

from tests.cases.apps.script import case_of
from tests.cases.place import PATIENCE_S, ROOT, Json, Place, results, said, served
from tests.system.daemon import ask

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

RUN = "b31-run"
U1, U2, U3, END = (said(turn) for turn in case_of("b31")["model_turns"])
NOTE = "characters that are no text (lone surrogate, NUL) were replaced, at "
DATA = {"u1": "bad \ufffd tail", "u3": {"k\ufffd": ["ok 😀", "a\ufffd"]}}
NOTES = {"u1": [f"{NOTE}$"], "u3": [f"{NOTE}$ and 1 more"]}


async def _is_quiet(place: Place) -> None:
    """Nothing has crashed, was set aside or is still to be delivered."""
    log = await place.daemon.log()
    assert "actor_crashed" not in log
    assert "UnicodeEncodeError" not in log
    async with place.daemon.client("operator") as operator:
        assert (await ask(operator, "letters", {}, "operator"))["letters"] == []
    with anyio.fail_after(PATIENCE_S):
        while True:
            async with place.client() as client:
                rows = (await client.actors())["actors"]
            if not any(row["running"] + row["pending"] for row in rows):
                return
            await anyio.sleep(0.05)


async def _record(place: Place) -> tuple[Json, Json, list[Json]]:
    """What the journal says in every form in which it is read."""
    async with place.client() as client:
        traced = await client.trace(RUN)
    return await place.show(RUN), traced, await place.events(RUN)


async def test_the_model_sees_what_was_replaced_and_the_run_completes(data_dir: Path) -> None:
    async with served(data_dir, "b31", U1, U2, U3, END) as (place, fake):
        await place.submit(RUN)
        result = await place.result(RUN)
        assert (result["status"], result["output"]) == ("SUCCEEDED", "read all three")
        assert len(fake.requests) == 4
        [first], [second], [third] = (results(request) for request in fake.requests[1:])
        assert (first["content"]["data"], first["content"]["notes"]) == (DATA["u1"], NOTES["u1"])
        assert (third["content"]["data"], third["content"]["notes"]) == (DATA["u3"], NOTES["u3"])
        assert second["is_error"] is True
        assert second["content"]["message"] == "ValueError: cannot read \ufffd"
        assert fake.broken == []
        await _is_quiet(place)

        shown, traced, events = await _record(place)
        assert [item["payload"] for item in shown["evidence"]] == [DATA["u1"], DATA["u3"]]
        outcomes = [step["calls"][0]["outcome"] for step in traced["steps"] if step["calls"]]
        assert outcomes == ["ok", "error", "ok"]
        # and read from the disk by another process it is the same run
        await place.restart("kill")
        again, traced_again, events_again = await _record(place)
        assert (again, traced_again, events_again) == (shown, traced, events)


async def test_the_run_goes_on_from_what_was_recorded(data_dir: Path) -> None:
    """Killed under the third call: the conversation made from the record is the one that was sent.

    The provider turns down a prefix that has changed; the decision that died with its process is
    asked for again.
    """
    async with served(data_dir, "b31", U1, U2, U3, U3, END) as (place, fake):
        await place.hold("u3")
        await place.submit(RUN)
        await place.until_happened(3)
        await place.daemon.kill()
        await place.let_go("u3")
        await place.daemon.up()
        result = await place.result(RUN)
        assert (result["status"], result["output"]) == ("SUCCEEDED", "read all three")
        assert len(fake.requests) == 5
        assert fake.requests[2]["messages"] == fake.requests[3]["messages"][:5]
        assert fake.broken == []
        await _is_quiet(place)


async def test_equal_dirty_results_are_seen_to_be_equal(data_dir: Path) -> None:
    async with served(data_dir, "b31", *[U3] * 5) as (place, fake):
        await place.submit(RUN)
        result = await place.result(RUN)
        assert (result["status"], result["reason"]) == ("NO_PROGRESS", "repeated_action")
        flags = await place.events(RUN, "progress_flagged")
        assert [flag["level"] for flag in flags] == ["warn", "stop"]
        assert len(fake.requests) == 4
        assert fake.broken == []


def test_cleaning_happens_at_one_place() -> None:
    """Whatever mends text does it there; everything else may rely on it."""
    folders = [ROOT / name for name in ("messages", "runtime", "actors", "treadle")]
    sources = [file for folder in folders for file in folder.rglob("*.py")]
    assert len(sources) > 100
    mending = [
        str(file.relative_to(ROOT))
        for file in sources
        if any(word in file.read_text() for word in ("surrogatepass", "surrogateescape"))
    ]
    assert mending == ["runtime/tools/clean.py"]
