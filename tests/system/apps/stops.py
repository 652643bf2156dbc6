"""An app that can be found in the middle of anything: its tools wait while a test holds them.

Every call notes its begin and its end, and every effect, in the downstream's file.
"""

import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio

from tests.cases.apps import downstream
from tests.cases.apps.script import playing
from treadle import Agent, App, Ctx, Request, Ruling, allow, ask, each_call, read, write


@contextmanager
def _noted(tool: str) -> Generator[None]:
    downstream.note(downstream.FILE, kind="begin", key=tool)
    try:
        yield
    finally:
        downstream.note(downstream.FILE, kind="end", key=tool)


@read(source="shelf")
async def look(ctx: Ctx[None]) -> str:
    """Look at something for a long time."""
    with _noted("look"):
        while _is_held("look"):  # noqa: ASYNC110 -- another process
            await anyio.sleep(0.01)
    return "seen"


@read(source="shelf")
def stare(ctx: Ctx[None]) -> str:
    """Look at something in a thread, which nothing can stop."""
    with _noted("stare"):
        _while_held("stare")
    return "seen"


@read(source="shelf")
def fail(ctx: Ctx[None]) -> str:
    """Fail."""
    raise ValueError("as always")


@write(key=each_call)
async def post(ctx: Ctx[None]) -> str:
    """Post, in the event loop."""
    with _noted("post"):
        while _is_held("post"):  # noqa: ASYNC110 -- another process
            await anyio.sleep(0.01)
        downstream.note(downstream.FILE, kind="effect", key=ctx.idempotency_key)
    return "posted"


@post.rule
def may_post(req: Request) -> Ruling:
    return allow()


@post.lookup
def find_post(ctx: Ctx[None]) -> str | None:
    return "posted" if downstream.effects(ctx.idempotency_key) else None


@write(key=each_call)
def stamp(ctx: Ctx[None]) -> str:
    """Post, in a thread, which nothing can stop."""
    with _noted("stamp"):
        _while_held("stamp")
        downstream.note(downstream.FILE, kind="effect", key=ctx.idempotency_key)
    return "stamped"


@stamp.rule
def may_stamp(req: Request) -> Ruling:
    return allow()


@stamp.lookup
def find_stamp(ctx: Ctx[None]) -> str | None:
    return "stamped" if downstream.effects(ctx.idempotency_key) else None


@write(key=each_call)
async def pay(ctx: Ctx[None]) -> str:
    """Pay, if a person says so."""
    downstream.note(downstream.FILE, kind="effect", key=ctx.idempotency_key)
    return "paid"


@pay.rule
def may_pay(req: Request) -> Ruling:
    return ask("lead", "money", size=1)


@pay.lookup
def find_payment(ctx: Ctx[None]) -> str | None:
    return "paid" if downstream.effects(ctx.idempotency_key) else None


def _is_held(name: str) -> bool:
    """Asked in place, so that what is counted of the process is Treadle's own."""
    return Path(downstream.place() / f"hold-{name}").exists()


def _while_held(name: str) -> None:
    while _is_held(name):
        time.sleep(0.01)


def _turn(*calls: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    content = [
        {"type": "tool_use", "id": f"toolu_{place:02d}", "name": name, "input": given}
        for place, (name, given) in enumerate(calls)
    ]
    return {"stop_reason": "tool_use", "content": content, "usage": _USAGE}


_USAGE = {"input_tokens": 100, "output_tokens": 20}
_DONE = {
    "stop_reason": "end_turn",
    "content": [{"type": "text", "text": "done"}],
    "usage": _USAGE,
}
_LONG = {"seconds": 3600, "why": "it takes its time"}
agent = Agent(
    "stops",
    model="m",
    instructions="Do it.",
    tools=[look, stare, fail, post, stamp, pay],
    escalate_to="lead",
    max_consecutive_errors=1,
)
app = App(
    agent,
    script=playing(
        {
            "look": [_turn(("look", {})), _DONE],
            "stare": [_turn(("stare", {})), _DONE],
            "post": [_turn(("post", {})), _DONE],
            "stamp": [_turn(("stamp", {})), _DONE],
            "two": [_turn(("post", {}), ("look", {}), ("stamp", {}), ("pay", {})), _DONE],
            "pay": [_turn(("pay", {})), _DONE],
            "fail": [_turn(("fail", {})), _DONE],
            "wait": [_turn(("wait", _LONG)), _DONE],
            "plain": [_DONE],
        }
    ),
)
