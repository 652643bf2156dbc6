"""Case B15: a read that waits, a write that nothing can stop, and a read that fails."""

import time
from pathlib import Path
from typing import Any

import anyio

from tests.cases.apps import downstream
from tests.cases.apps.script import case_of, playing
from treadle import Agent, App, Ctx, Request, Ruling, allow, read, write

BOOM_S = 0.2


@read(source="clock", timeout_s=60)
async def wait_async(ctx: Ctx[None], s: int) -> str:
    """Wait, for as long as a test lets it."""
    downstream.note(downstream.FILE, kind="start", key="wait")
    try:
        with anyio.fail_after(s):
            await downstream.while_held("wait")
    finally:
        downstream.note(downstream.FILE, kind="finally", key="wait")
    return "waited"


@write(key="late:{text}:v1")
def write_late(ctx: Ctx[None], text: str) -> dict[str, Any]:
    """Write a file, after a while in which no event loop can stop it."""
    downstream.note(downstream.FILE, kind="start", key=ctx.idempotency_key)
    while Path(downstream.place() / "hold-late").exists():
        time.sleep(0.01)
    downstream.note(downstream.FILE, kind="effect", key=ctx.idempotency_key, text=text)
    return {"text": text}


@write_late.rule
def may_write(req: Request, text: str) -> Ruling:
    return allow()


@write_late.lookup
def find_file(ctx: Ctx[None], text: str) -> dict[str, Any] | None:
    return {"text": text} if downstream.effects(ctx.idempotency_key) else None


@read(source="nowhere", timeout_s=60)
async def boom(ctx: Ctx[None]) -> str:
    """Fail, or wait where a test holds it."""
    downstream.note(downstream.FILE, kind="start", key="boom")
    try:
        await downstream.while_held("boom")
        await anyio.sleep(BOOM_S)
    finally:
        downstream.note(downstream.FILE, kind="finally", key="boom")
    raise RuntimeError("boom")


TURNS = case_of("b15")["model_turns"]
AGAIN = {
    **TURNS[0],
    "content": [
        {"type": "tool_use", "id": "toolu_09", "name": "write_late", "input": {"text": "x"}}
    ],
}
agent = Agent("b15", model="m", instructions="Do it all.", tools=[wait_async, write_late, boom])
app = App(agent, script=playing({"a": TURNS, "again": [AGAIN, TURNS[1]]}))
