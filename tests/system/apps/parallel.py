"""An app whose turns call many tools at once: some wait, fail, are late, are asked for or denied.

Every call notes its begin and its end in the downstream's file, with the process it ran in.
"""

import asyncio
import os
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import anyio

from tests.cases.apps import downstream
from tests.cases.apps.script import playing
from treadle import Agent, App, Ctx, Request, Ruling, allow, ask, deny, read, write

MANY = 40


@contextmanager
def _noted(tool: str, key: str) -> Generator[None]:
    downstream.note(downstream.FILE, kind="begin", tool=tool, key=key, pid=os.getpid())
    try:
        yield
    finally:
        downstream.note(downstream.FILE, kind="end", tool=tool, key=key)


@read(source="shelf")
async def look(ctx: Ctx[None], key: str) -> str:
    """Look at one thing."""
    with _noted("look", key):
        await downstream.while_held("look")
    return f"value of {key}"


@read(source="shelf", timeout_s=0.3)
async def slow(ctx: Ctx[None], key: str) -> str:
    """Look at something that never answers."""
    with _noted("slow", key):
        await anyio.sleep_forever()
    return key


@read(source="shelf")
def broken(ctx: Ctx[None], key: str) -> str:
    """Look at something that fails."""
    with _noted("broken", key):
        raise ValueError(key)


@read(source="shelf")
async def quits(ctx: Ctx[None], key: str) -> str:
    """Look at something that is cancelled from inside, as a downstream library might be."""
    with _noted("quits", key):
        raise asyncio.CancelledError


def _did(key: str, **line: Any) -> None:
    downstream.note(downstream.FILE, kind="effect", key=key, **line)


def _is_done(key: str) -> bool:
    lines = downstream.lines(downstream.place())
    return any(line["kind"] == "effect" and line["key"] == key for line in lines)


@write(key="post:{key}:v1", timeout_s=5.0, late_commit_s=0.2)
async def post(ctx: Ctx[None], key: str) -> str:
    """Post once."""
    with _noted("post", key):
        _did(ctx.idempotency_key)
        await downstream.while_held("post")
    return f"posted {key}"


@post.rule
def may_post(req: Request, key: str) -> Ruling:
    return allow()


@post.lookup
def find_post(ctx: Ctx[None], key: str) -> str | None:
    return f"posted {key}" if _is_done(ctx.idempotency_key) else None


@write(key="pay:{to}:v1")
async def pay(ctx: Ctx[None], to: str) -> str:
    """Pay once, if a person says so."""
    _did(ctx.idempotency_key)
    return f"paid {to}"


@pay.rule
def may_pay(req: Request, to: str) -> Ruling:
    return deny("POL-1 forbids it") if to == "forbidden" else ask("lead", "money", size=1)


@pay.lookup
def find_payment(ctx: Ctx[None], to: str) -> str | None:
    return f"paid {to}" if _is_done(ctx.idempotency_key) else None


def _turn(*calls: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    content = [
        {"type": "tool_use", "id": f"toolu_{place:02d}", "name": name, "input": given}
        for place, (name, given) in enumerate(calls)
    ]
    usage = {"input_tokens": 100, "output_tokens": 20}
    return {"stop_reason": "tool_use", "content": content, "usage": usage}


def _say(text: str) -> dict[str, Any]:
    usage = {"input_tokens": 100, "output_tokens": 20}
    return {
        "stop_reason": "end_turn",
        "content": [{"type": "text", "text": text}],
        "usage": usage,
    }


MIXED = _turn(
    ("look", {"key": "a"}),
    ("pay", {"to": "acct-1"}),
    ("nope", {"key": "b"}),
    ("look", {"key": 5}),
    ("broken", {"key": "c"}),
    ("slow", {"key": "d"}),
    ("quits", {"key": "e"}),
    ("post", {"key": "f"}),
    ("pay", {"to": "forbidden"}),
    ("pay", {"to": "acct-2"}),
    ("look", {"key": "g"}),
    ("pay", {"to": "acct-3"}),
)
WIDE = _turn(*[("look", {"key": f"k{number}"}) for number in range(MANY)])
CUT = _turn(
    *[("look", {"key": f"k{number}"}) for number in range(4)],
    ("post", {"key": "x"}),
    ("pay", {"to": "acct-1"}),
    *[("look", {"key": f"k{number}"}) for number in range(4, MANY)],
)
KILLED = _turn(
    ("look", {"key": "a"}), ("post", {"key": "x"}), ("look", {"key": "b"}), ("broken", {"key": "c"})
)
agent = Agent(
    "parallel",
    model="m",
    instructions="Do it all.",
    tools=[look, slow, broken, quits, post, pay],
    on_policy_deny="tell",
)
app = App(
    agent,
    script=playing(
        {
            "mixed": [MIXED, _say("done")],
            "wide": [WIDE, _say("done")],
            "cut": [CUT, _say("never said")],
            "killed": [KILLED, _say("done")],
        }
    ),
)
