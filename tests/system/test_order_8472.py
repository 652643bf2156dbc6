"""The order 8472 trace of the source document, reproduced exactly: ids and clock are injected.

Everything else is real: the nats-server, SQLite, the payments service as its own process.
"""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import pytest
from nats.aio.client import Client

from messages.canon import action_hash, shown
from runtime.bus import client
from runtime.bus.server import EmbeddedServer
from runtime.clock import FakeClock, FixedIds, machine_chance
from runtime.config import load_policy
from runtime.ledger.sqlite import SqliteLedger
from runtime.policy.grants import load_signer
from runtime.settings import Settings
from runtime.supervisor import Supervisor
from tests.system.daemon import ask, raw_client
from treadle.assembly import Parts, assemble
from treadle.examples import refunds
from treadle.examples.refunds import app
from treadle.examples.refunds.shop import Shop
from treadle.models import models_of

pytestmark = pytest.mark.anyio

TASK = "task-8472-a"
GOAL = (
    "Order 8472 was charged twice, and my refund has not arrived. "
    "Please investigate and resolve it."
)
KEY = "refund:order-8472:pay_5a2:v1"
ARGUMENTS = {"order_id": "8472", "payment_id": "pay_5a2", "amount_inr": 2000}
START = datetime(2026, 10, 28, 11, 17, 43, tzinfo=UTC).timestamp()
ASKED_AFTER_S = 120.0
"""The document asks for the approval two hours before 13:19:43."""


@pytest.fixture
async def people(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncGenerator[dict[str, Client]]:
    """The refund app served with the document's ids and clock; its users' connections."""
    monkeypatch.setenv("TREADLE_DATA_DIR", str(data_dir))
    clock = FakeClock(START)
    search = Shop.search_policy

    async def slow_search(shop: Shop, query: str) -> object:
        """The policy search is where the document's clock moves on."""
        clock.jump(ASKED_AFTER_S)
        return await search(shop, query)

    monkeypatch.setattr(Shop, "search_policy", slow_search)
    async with (
        _served(data_dir, clock) as server,
        _as(server, "submitter") as submitter,
        _as(server, "approver") as approver,
        _as(server, "operator") as operator,
    ):
        yield {"submitter": submitter, "approver": approver, "operator": operator}


@asynccontextmanager
async def _served(data_dir: Path, clock: FakeClock) -> AsyncGenerator[EmbeddedServer]:
    ids = FixedIds(
        {
            "trace": ["trace-7f3a"],
            "apr": ["apr-5521"],
            "req": [f"req-8472-{number:02d}" for number in range(1, 20)],
        }
    )
    settings = Settings()
    agents, models = await anyio.to_thread.run_sync(models_of, app, settings, "scripted")
    policy_file = Path(refunds.__file__).with_name("policy.toml")
    policy = await anyio.to_thread.run_sync(load_policy, [policy_file])
    signer = await anyio.to_thread.run_sync(load_signer, data_dir)
    ledger = await SqliteLedger.open(data_dir / "ledger.db", clock.now)
    async with (
        EmbeddedServer(data_dir) as server,
        client.connect(server.url, server.users["daemon"], clock=clock) as bus,
        anyio.create_task_group() as tasks,
    ):
        await bus.prepare_streams(sorted(agents))
        roles = assemble(
            Parts(
                bus_of=lambda _role: bus,
                ledger=ledger,
                app=app,
                agents=agents,
                models=models,
                settings=settings,
                policy=policy,
                signer=signer,
                public_key=signer.public_key,
                clock=clock,
                ids=ids,
                chance=machine_chance,
                process="proc-1",
            )
        )
        supervisor = Supervisor(clock=clock, chance=machine_chance, grace_s=5, signals=())
        tasks.start_soon(supervisor.run, roles.specs)
        await roles.ready()
        yield server
        supervisor.stop()
    await ledger.close()


def _as(server: EmbeddedServer, name: str) -> Any:
    user = server.users[name]
    return raw_client(server.url, user.user, user.password, user.inbox_prefix)


async def _show(people: dict[str, Client], at: int | None = None) -> dict[str, Any]:
    body = {"run_id": TASK} if at is None else {"run_id": TASK, "at": at}
    return await ask(people["operator"], "show", body, "operator")


async def _until(people: dict[str, Client], status: str) -> dict[str, Any]:

    with anyio.fail_after(20):
        while True:
            state = await _show(people)
            if state.get("status") == status:
                return state
            await anyio.sleep(0.02)


async def test_the_documents_trace_and_on_to_success(
    people: dict[str, Client], data_dir: Path
) -> None:
    task = {
        "agent": "refund",
        "goal": GOAL,
        "run_id": TASK,
        "inputs": {"order_id": "8472"},
    }
    accepted = await ask(people["submitter"], "submit", task, "submitter")
    assert accepted == {"v": 1, "run_id": TASK, "existing": False}
    waiting = await _until(people, "AWAITING_APPROVAL")
    await _check_versions(people)
    _check_approval(waiting)
    body = {"approval_id": "apr-5521", "action": waiting["approval"]["action_hash"]}
    decided = await ask(people["approver"], "approve", body, "approver")
    assert decided.get("error") is None
    ended = await _until(people, "SUCCEEDED")
    assert (ended["reason"], ended["step_count"]) == ("verified", 6)
    lines = (await anyio.Path(data_dir / "payments.jsonl").read_text()).splitlines()
    effects = [json.loads(line) for line in lines]
    assert [(e["kind"], e["key"]) for e in effects] == [
        ("refund", KEY),
        ("notification", "notify:order-8472:refund-created:v1"),
    ]


async def _check_versions(people: dict[str, Client]) -> None:
    """Versions 0 to 4: steps, token totals, evidence and requests as the document prints them."""
    states = [await _show(people, at) for at in range(5)]
    assert [s["version"] for s in states] == [0, 1, 2, 3, 4]
    assert [s["step_count"] for s in states] == [0, 1, 2, 3, 4]
    assert [s["usage"]["tokens"] for s in states][:4] == [0, 1260, 2965, 5335]
    assert [s["status"] for s in states] == ["RUNNING"] * 4 + ["AWAITING_APPROVAL"]
    assert states[0]["evidence"] == states[0]["tool_history"] == states[0]["outstanding"] == []
    third = states[3]
    assert (third["run_id"], third["trace_id"]) == (TASK, "trace-7f3a")
    assert third["usage"]["input_tokens"] + third["usage"]["output_tokens"] == 5335
    assert (third["limits"]["max_steps"], third["limits"]["max_tokens"]) == (8, 40_000)
    assert states[2]["deadline_at"] == "2026-10-28T11:19:43.000Z"
    assert [(e["id"], e["tool"], e["request_id"], e["source"]) for e in third["evidence"]] == [
        ("ev-1", "lookup_order", "req-8472-01", "payments-service"),
        ("ev-2", "get_refund_status", "req-8472-02", "refunds-service"),
        ("ev-3", "search_policy", "req-8472-03", "policy-store"),
    ]
    assert [
        (h["step"], h["tool"], h["outcome"], h["evidence_id"]) for h in third["tool_history"]
    ] == [
        (1, "lookup_order", "ok", "ev-1"),
        (2, "get_refund_status", "ok", "ev-2"),
        (3, "search_policy", "ok", "ev-3"),
    ]
    order = third["evidence"][0]["payload"]
    assert [p["payment_id"] for p in order["payments"]] == ["pay_5a1", "pay_5a2"]
    assert third["evidence"][1]["payload"] == {"order_id": "8472", "refunds": []}
    assert third["outstanding"] == []


def _check_approval(state: dict[str, Any]) -> None:
    """Version 4: asked, bound to the hash of exactly this action, until two hours later."""
    assert state["version"] == 4
    assert [(o["kind"], o["key"], o["status"]) for o in state["outstanding"]] == [
        ("issue_refund", KEY, "proposed")
    ]
    assert state["approval"]["id"] == "apr-5521"
    assert state["approval"]["expires_at"] == "2026-10-28T13:19:43.000Z"
    expected = action_hash("issue_refund", ARGUMENTS, KEY)
    assert state["approval"]["action_hash"] == shown(expected)
