"""Grants over the real bus: sent often, forged, or for something else."""

import json
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

from messages.codec import encode
from messages.execution import Execute
from runtime.policy.grants import load_signer
from tests.system.daemon import Daemon, listen
from tests.system.test_refund import approve_all, publish, result_of

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]
EXECUTE = "treadle.rpc.executor.issue_refund.execute"


async def _execute_of(daemon: Daemon, observer: Client) -> bytes:
    """The Execute of the refund, as the orchestrator sent it."""
    caught: list[bytes] = []

    async def catch(message: Msg) -> None:
        caught.append(message.data)

    await listen(observer, EXECUTE, catch)
    async with daemon.client("submitter") as client:
        await publish(client, "x1")
        await approve_all(daemon, "x1")
        await result_of(client, "x1")
    assert len(caught) == 1
    return caught[0]


async def _ask(observer: Client, data: bytes) -> dict[str, Any]:
    reply = await observer.request(EXECUTE, data, timeout=20)
    return json.loads(reply.data)


async def test_one_grant_sent_twenty_times_starts_the_write_once(daemon: Daemon) -> None:
    """While the first one is under way, and again after it is done."""
    await daemon.up()
    async with daemon.observer() as observer:
        answers: list[dict[str, Any]] = []

        async def flood(message: Msg) -> None:
            if message.headers:  # our own copies carry a mark
                return
            async with anyio.create_task_group() as tasks:
                for _ in range(19):
                    tasks.start_soon(one, message.data)

        async def one(data: bytes) -> None:
            reply = await observer.request(EXECUTE, data, timeout=20, headers={"copy": "1"})
            answers.append(json.loads(reply.data))

        await listen(observer, EXECUTE, flood)
        async with daemon.client("submitter") as client:
            await publish(client, "x1")
            await approve_all(daemon, "x1")
            result = await result_of(client, "x1")
    assert result["status"] == "SUCCEEDED"
    kinds = [effect["kind"] for effect in await daemon.effects()]
    assert kinds.count("refund") == 1
    assert len(answers) == 19
    assert not [a for a in answers if a.get("kind") == "ok"], "a second claim was let through"


async def test_forged_grants_start_nothing(daemon: Daemon, data_dir: Path) -> None:
    """Absent, of another key, bit-flipped, for other arguments, for another run, expired."""
    await daemon.up()
    async with daemon.observer() as observer:
        data = await _execute_of(daemon, observer)
        before = len(await daemon.effects())
        sent = msgspec.json.decode(data, type=Execute)
        for forged in _forgeries(sent):
            answer = await _ask(observer, encode(forged))
            assert (answer["t"], answer["code"]) == ("failure/1", "BAD_GRANT"), answer
        answer = await _ask(observer, encode(sent))  # genuine, but of a run that has ended
        assert answer.get("kind", "failure") != "ok"
        for garbage in (b"", b"{", b'{"t":"execute/1"}', b'{"t":"execute/9"}', b"\xff\xfe"):
            answer = await _ask(observer, garbage)
            assert answer["t"] == "failure/1"
        assert len(await daemon.effects()) == before
    signer = await anyio.to_thread.run_sync(load_signer, data_dir)
    assert signer.public_key, "the data directory has one signing key"


def _forgeries(sent: Execute) -> list[Execute]:
    grant, action = sent.grant, sent.action
    change = msgspec.structs.replace
    more = {**action.arguments, "amount_inr": 2001}
    other_key = "refund:order-8472:pay_5a1:v1"
    text = grant.signature
    flipped = ("B" if text[0] == "A" else "A") + text[1:]
    return [
        change(sent, grant=change(grant, signature="")),
        change(sent, grant=change(grant, signature=flipped)),
        change(sent, grant=change(grant, expires_at=grant.expires_at + 3600)),
        change(sent, grant=change(grant, run_id="x2")),
        change(sent, run_id="x2"),
        change(sent, tenant="acme"),
        change(sent, step=sent.step + 1),
        change(sent, action=change(action, arguments=more)),
        change(sent, action=change(action, key=other_key)),
        change(sent, action=change(action, key=None)),
        change(sent, action=change(action, ordinal=1)),
    ]
