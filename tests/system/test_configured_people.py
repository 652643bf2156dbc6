"""People and groups of treadle.toml: who may decide, under their own credentials."""

import json

import anyio
import pytest

from tests.system.daemon import Daemon, ask
from tests.system.test_refund import publish, result_of

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

TOML = """\
[people.dana]
[people.kim]
[groups.support-lead]
members = ["dana"]
max_size = 5000
"""


async def _waiting(daemon: Daemon) -> str:
    """The approval that the run waits for."""
    async with daemon.client("operator") as operator:
        with anyio.fail_after(20):
            while True:
                listed = await ask(operator, "approvals", {}, "operator")
                if listed["approvals"]:
                    return listed["approvals"][0]["id"]
                await anyio.sleep(0.02)


async def test_only_a_member_of_the_group_may_approve(daemon: Daemon) -> None:
    await anyio.Path(daemon.data_dir.parent / "treadle.toml").write_text(TOML)
    await daemon.up()
    async with daemon.client("submitter") as client:
        await publish(client, "x1")
        approval = await _waiting(daemon)
        for name in ("kim", "approver"):
            async with daemon.client(name) as person:
                refused = await ask(person, "approve", {"approval_id": approval}, name)
            assert refused["error"]["code"] == "NOT_ALLOWED", json.dumps(refused)
        async with daemon.client("dana") as person:
            decided = await ask(person, "approve", {"approval_id": approval}, "dana")
        assert decided.get("error") is None
        assert (await result_of(client, "x1"))["status"] == "SUCCEEDED"
    assert [e["kind"] for e in await daemon.effects()].count("refund") == 1
