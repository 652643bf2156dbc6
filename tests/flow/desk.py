"""A small agent and the downstream that it acts upon, for the flow tests."""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import anyio

from runtime.agent import Agent
from treadle import (
    Ctx,
    Request,
    Ruling,
    Transient,
    Unknown,
    Unmet,
    allow,
    ask,
    deny,
    each_call,
    read,
    write,
)

DAY = timedelta(days=1)


@dataclass
class Desk:
    """What the tools reach: it counts requests and effects, and misbehaves when told to.

    Attributes:
        effects: How often each key took effect; a replayed key takes effect once.
        requests: Keys as they came in.
        faults: What to do instead, by tool, one after the other.
    """

    effects: dict[str, int] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    faults: dict[str, list[Any]] = field(default_factory=dict)
    answers: dict[str, list[Any]] = field(default_factory=dict)
    lookups: int = 0
    owed: bool = True
    started: anyio.Event = field(default_factory=anyio.Event)
    go_on: anyio.Event = field(default_factory=anyio.Event)

    async def fault(self, tool: str) -> None:
        queue = self.faults.get(tool, [])
        if not queue:
            return
        fault = queue.pop(0)
        if isinstance(fault, BaseException):
            raise fault
        if fault == "hang":
            self.started.set()
            await self.go_on.wait()
        if isinstance(fault, float):
            await anyio.sleep(fault)  # a downstream that takes its time

    async def take(self, tool: str, key: str) -> str:
        """The effect: at most once for a key, and then perhaps no answer."""
        self.requests.append(key)
        await self.fault(tool)
        self.effects.setdefault(key, 0)
        if self.effects[key] == 0:
            self.effects[key] = 1
        await self.fault(f"{tool} afterwards")
        return f"done {key}"

    async def take_again(self, tool: str, key: str) -> str:
        """The same from a downstream that honours no key."""
        await self.fault(tool)
        self.effects[key] = self.effects.get(key, 0) + 1
        self.requests.append(key)
        await self.fault(f"{tool} afterwards")
        return f"done {key}"


@read(source="shelf")
async def look(ctx: Ctx[Desk], key: str) -> Any:
    """Look at one thing."""
    await ctx.deps.fault("look")
    answers = ctx.deps.answers.get("look")
    return answers.pop(0) if answers else {"key": key}


@read(source="a shelf with a name " + "that is very long " * 200)
async def far(ctx: Ctx[Desk], key: str) -> str:
    """Look at something whose provenance is longer than what it says."""
    del ctx
    return key


@read(source="shelf", polling=True)
async def poll(ctx: Ctx[Desk], key: str) -> str:
    """See whether something has changed."""
    del ctx
    return f"{key} is pending"


@read(source="shelf", timeout_s=0.05)
async def slow(ctx: Ctx[Desk], key: str) -> str:
    """Look at something that takes its time."""
    await ctx.deps.fault("slow")
    return key


@write(key="pay:{key}:v1", replay_for=DAY, timeout_s=1.0, late_commit_s=0.2)
async def pay(ctx: Ctx[Desk], key: str, amount: int = 1) -> str:
    """Pay once."""
    return await ctx.deps.take("pay", ctx.idempotency_key)


@pay.rule
def may_pay(req: Request, key: str, amount: int = 1) -> Ruling:
    if key == "forbidden":
        return deny("POL-1 forbids it")
    if amount > 1000:
        return ask("lead", "above the limit", size=amount, ttl=timedelta(seconds=60))
    if amount > 500:
        return ask("lead", "above the limit", size=amount, ttl=timedelta(seconds=2))
    return allow()


@pay.precondition
async def still_owed(ctx: Ctx[Desk], key: str, amount: int = 1) -> Unmet | None:
    await ctx.deps.fault("still_owed")
    return None if ctx.deps.owed else Unmet("nothing is owed any more")


@write(key="post:{key}:v1", timeout_s=1.0, late_commit_s=0.1)
async def post(ctx: Ctx[Desk], key: str) -> str:
    """Post once; the office can be asked afterwards."""
    return await ctx.deps.take("post", ctx.idempotency_key)


@post.rule
def may_post(req: Request, key: str) -> Ruling:
    return allow()


@post.lookup
async def find_post(ctx: Ctx[Desk], key: str) -> str | None:
    ctx.deps.lookups += 1
    await ctx.deps.fault("find_post")
    if answers := ctx.deps.answers.get("find_post"):
        return answers.pop(0)
    return f"found {key}" if ctx.deps.effects.get(f"post:{key}:v1") else None


@write(key="shout:{key}", timeout_s=1.0, late_commit_s=0.1)
async def shout(ctx: Ctx[Desk], key: str) -> str:
    """Say something that cannot be taken back or asked for."""
    return await ctx.deps.take_again("shout", ctx.idempotency_key)


@shout.rule
def may_shout(req: Request, key: str) -> Ruling:
    return allow()


@write(key=each_call, replay_for=DAY)
async def chat(ctx: Ctx[Desk], words: str) -> str:
    """Every message is its own."""
    return await ctx.deps.take("chat", ctx.idempotency_key)


@chat.rule
def may_chat(req: Request, words: str) -> Ruling:
    return allow()


TOOLS = [look, far, poll, slow, pay, post, shout, chat]


def agent(**options: Any) -> Agent[Any]:
    """An agent with all the tools."""
    return Agent("desk", model="m", instructions="Do the task.", tools=TOOLS, **options)


LOST = Unknown("the reply was lost")
BUSY = Transient("try again")
