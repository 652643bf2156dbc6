"""``treadle.Client`` over the bus in memory: a connection per user, live events, waiting."""

import os
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from messages.errors import (
    Conflict,
    DeadlineExceeded,
    NotAllowed,
    NotFound,
    Unreachable,
    UsageError,
)
from messages.events import Finished
from messages.status import Reason, Status
from runtime.bus import memory
from runtime.bus.bus import WireBus
from runtime.bus.permissions import Credentials
from runtime.supervisor import Phase
from tests import journals
from tests.flow.gateway_world import PATIENCE_S, World, world
from tests.flow.test_gateway_effects import flagged
from tests.journals import HASH, KEY, RUN
from treadle import Client


@pytest.fixture
async def here(place: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[World]:
    async with world() as running:

        def connect(
            _url: str, _credentials: Credentials, *, name: str
        ) -> AbstractAsyncContextManager[WireBus]:
            return memory.connect(running.hub, name=name)

        monkeypatch.setattr("treadle.client.wire.connect", connect)
        yield running


@pytest.fixture
def place(data_dir: Path) -> Path:
    """A data directory with the connection file of this process."""
    names = ("submitter", "approver", "operator")
    users = {n: {"user": n, "password": "", "inbox_prefix": f"_INBOX_{n}"} for n in names}
    record = {"url": "nats://memory", "pid": os.getpid(), "users": users}
    (data_dir / "connection.json").write_bytes(msgspec.json.encode(record))
    return data_dir


@asynccontextmanager
async def client_of(place: Path, user: str | None = None) -> AsyncGenerator[Client]:
    async with Client.connect(place, user=user) as client:
        yield client


async def hint(here: World, run_id: str) -> None:
    """What the orchestrator does after each entry."""
    await here.bus.publish(f"treadle.events.default.{run_id}.finished", b"{}")


async def ask_for_approval(here: World) -> None:
    entries = journals.journal()
    request = entries[2].events[3]
    expires_at = (await here.loaded(RUN)).now + 60
    request = msgspec.structs.replace(request, expires_at=expires_at)
    await here.grow(RUN, entries[1].events, (*entries[2].events[:3], request, entries[2].events[4]))
    await hint(here, RUN)


async def test_each_verb_speaks_as_its_own_user(here: World, place: Path) -> None:
    async with client_of(place) as client:
        reply = await client.submit("refund", "g", run_id=RUN, limits={"max_steps": 4})
        assert reply == {"v": 1, "run_id": RUN, "existing": False}
        await ask_for_approval(here)
        run = await client.show(RUN)
        assert run["principal"] == "submitter"
        [row] = (await client.approvals())["approvals"]
        [detail] = (await client.approvals([row["id"]]))["approvals"]
        assert detail["principal"] == "submitter"
        decided = await client.approve(row["id"], action=row["action_hash"], reason="ok")
        assert decided["approval"]["state"] == "approved"
        assert (await client.ping())["principal"] == "operator"
        assert [run["run_id"] for run in (await client.list())["runs"]] == [RUN]
        assert (await client.agents())["agents"][0]["name"] == "refund"
        assert (await client.tools())["tools"]
        assert (await client.effects())["effects"] == []


async def test_a_fixed_user_does_everything(here: World, place: Path) -> None:
    async with client_of(place, "submitter") as client:
        await client.submit("refund", "g", run_id=RUN)
        await ask_for_approval(here)
        with pytest.raises(NotAllowed):
            await client.approve("apr-5521", action=HASH)


async def test_refusals_are_errors_again(here: World, place: Path) -> None:
    async with client_of(place) as client:
        with pytest.raises(NotFound, match="no run"):
            await client.show("nobody")
        with pytest.raises(UsageError):
            await client.submit("refund", "g", limits={"steps": 1})
        with pytest.raises(NotAllowed, match="ceiling"):
            await client.submit("refund", "g", limits={"max_steps": 99})
        await client.submit("refund", "g", run_id="r-1", limits={"max_tokens": 10})
        with pytest.raises(Conflict) as caught:
            await client.cancel("r-1")
        assert caught.value.why == "ENDED"
        with pytest.raises(UsageError):
            await client.pause()
        await client.pause(agent="refund", reason="r")
        await client.resume(agent="refund")
        await client.pause(everything=True)
        await client.resume(everything=True)
    assert here.ledger.tables.holds() == []


async def test_events_are_followed_live_until_the_run_ends(here: World, place: Path) -> None:
    seen: list[Any] = []
    async with client_of(place) as client, anyio.create_task_group() as tasks:
        await client.submit("refund", "g", run_id=RUN)
        begun = anyio.Event()

        async def follow() -> None:
            async for event in client.events(RUN):
                seen.append(event)
                begun.set()

        tasks.start_soon(follow)
        await begun.wait()
        page = await client.events(RUN)
        assert (page["version"], page["terminal"]) == (0, False)
        await here.grow(RUN, journals.journal()[1].events)
        await hint(here, RUN)
        end = Finished(status=Status.SUCCEEDED, reason=Reason.VERIFIED, summary="done")
        await here.grow(RUN, (end,))
        await hint(here, RUN)
    assert [event["version"] for event in seen] == [0, 0, 1, 1, 1, 1, 1, 1, 2]
    assert seen[-1]["kind"] == "finished"


async def test_events_do_not_depend_on_hints(
    here: World, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("treadle.client.feed.POLL_S", 0.01)
    async with client_of(place) as client, anyio.create_task_group() as tasks:
        await client.submit("refund", "g", run_id=RUN)

        async def end() -> None:
            await here.grow(RUN, (Finished(status=Status.SUCCEEDED, reason=Reason.VERIFIED),))

        tasks.start_soon(end)
        with anyio.fail_after(PATIENCE_S):
            kinds = [event["kind"] async for event in client.events(RUN)]
            assert kinds[-1] == "finished"


async def test_waiting_gives_the_result(here: World, place: Path) -> None:
    async with client_of(place) as client, anyio.create_task_group() as tasks:
        await client.submit("refund", "g", run_id=RUN)

        async def end() -> None:
            done = Finished(
                status=Status.SUCCEEDED, reason=Reason.VERIFIED, output={"a": 1}, summary="s"
            )
            await here.grow(RUN, (done,))
            await hint(here, RUN)

        tasks.start_soon(end)
        result = await client.wait(RUN, PATIENCE_S)
        assert (result.status, result.output, result.version) == ("SUCCEEDED", {"a": 1}, 1)
        assert await client.wait(RUN, PATIENCE_S) == result


async def test_waiting_for_a_person_and_not_for_ever(here: World, place: Path) -> None:
    async with client_of(place) as client:
        await client.submit("refund", "g", run_id=RUN)
        with pytest.raises(DeadlineExceeded, match="still under way"):
            await client.wait(RUN, 0.05)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask_for_approval, here)
            result = await client.wait(RUN, PATIENCE_S, for_person=True)
            assert result.status == "AWAITING_APPROVAL"


async def test_an_answer_continues_a_run(here: World, place: Path) -> None:
    ask = {"type": "tool_use", "id": "t", "name": "ask_user", "input": {"question": "Which?"}}
    said = msgspec.structs.replace(journals.decided(1, "x", {}, 100), content=(ask,))
    async with client_of(place) as client:
        await client.submit("refund", "g", run_id=RUN)
        end = Finished(status=Status.NEEDS_INPUT, reason=Reason.QUESTION)
        await here.grow(RUN, (said, end))
        reply = await client.answer(RUN, "pay_5a2")
        assert (await client.show(reply["run_id"]))["continues"] == RUN


async def test_a_daemon_without_a_gateway_is_unreachable(here: World, place: Path) -> None:
    async with client_of(place) as client:
        assert here.gateway is not None
        await here.gateway.drain(Phase.STOP_TAKING)
        await here.gateway.drain(Phase.FINISH)
        with pytest.raises(Unreachable, match="does not answer"):
            await client.ping()


async def test_a_connection_is_opened_from_any_task(here: World, place: Path) -> None:
    async with client_of(place) as client:
        async with anyio.create_task_group() as tasks:
            for number in range(5):
                tasks.start_soon(client.submit, "refund", f"g {number}")
        assert len((await client.list())["runs"]) == 5


@pytest.mark.parametrize("text", ["half \ud800", "\udfff"])
async def test_what_json_cannot_say_is_the_callers_mistake(
    here: World, place: Path, text: str
) -> None:
    del here
    async with client_of(place) as client:
        with pytest.raises(UsageError, match="JSON cannot carry"):
            await client.submit("refund", text)
        with pytest.raises(UsageError, match="JSON cannot carry"):
            await client.resolve_effect("key", happened=True, result={"note": text})


async def test_a_finding_that_comes_second_is_a_conflict(here: World, place: Path) -> None:
    await flagged(here)
    async with client_of(place) as client:
        first = await client.resolve_effect(KEY, happened=True, result={"refund_id": "rf-1"})
        assert first["effect"]["state"] == "done"
        with pytest.raises(Conflict) as caught:
            await client.resolve_effect(KEY, happened=False)
    assert caught.value.why == "NOT_UNKNOWN"
