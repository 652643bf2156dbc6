"""Runs of ten steps and a final decision, which a campaign can slow down, hold, or make deadly.

What a run does is said by its inputs, so that every campaign shares one app. The downstream knows
no keys and does again whatever it is asked again: its file is the judge of how often a write
happened.
"""

import os
import signal
from typing import Any, Final

import anyio
import msgspec

from runtime.model.scripted import Turn, View, call, finish, say
from tests.faults.app import LATE_COMMIT_S, TIMEOUT_S
from treadle import Agent, App, Budget, Ctx, Draft, Request, Ruling, Unmet, allow, read, write
from treadle.examples.refunds.records import Refund
from treadle.examples.refunds.shop import Shop, open_shop

STEPS: Final = 10
WRITE_AT: Final = 5
GATE_AT: Final = 5
"""The sixth step waits at the gate, where a run has one."""
_GATE_POLL_S: Final = 0.02
_AMOUNT_INR: Final = 100


class Inputs(msgspec.Struct, kw_only=True, frozen=True):
    """What a run is told.

    Attributes:
        order_id: Also the run's name.
        pace_s: How long each read takes.
        writes: Step 6 refunds the order.
        asks: A person must approve that.
        gate: A file; step 6 reads, and ends once the file is there.
        is_deadly: Whoever asks for its decision dies.
    """

    order_id: str
    pace_s: float = 0.0
    writes: bool = True
    asks: bool = False
    gate: str = ""
    is_deadly: bool = False


class Look(msgspec.Struct, frozen=True):
    """A different result at every step, so that it counts as progress."""

    part: int


class Outcome(msgspec.Struct, frozen=True):
    """What a run hands in."""

    parts: int


async def _refund(ctx: Ctx[Shop], order_id: str) -> Refund:
    payment_id = f"pay_{order_id}_2"
    return await ctx.deps.refund(order_id, payment_id, _AMOUNT_INR, key=ctx.idempotency_key)


@read(source="payments-service", timeout_s=600)
async def look(ctx: Ctx[Shop], part: int, pace_s: float, gate: str) -> Look:
    """Look at one part."""
    await anyio.sleep(pace_s)
    while gate and not await anyio.Path(gate).exists():  # noqa: ASYNC110 -- a file
        await anyio.sleep(_GATE_POLL_S)
    return Look(part)


@write(key="sure:{order_id}:v1", timeout_s=TIMEOUT_S, late_commit_s=LATE_COMMIT_S)
async def refund(ctx: Ctx[Shop], order_id: str) -> Refund:
    """Refund an order."""
    return await _refund(ctx, order_id)


@refund.rule
def may_refund(req: Request, order_id: str) -> Ruling:
    return allow()


@refund.lookup
async def find_refund(ctx: Ctx[Shop], order_id: str) -> Refund | None:
    return await ctx.deps.refund_of(order_id, f"pay_{order_id}_2")


@write(key="asked:{order_id}:v1", timeout_s=TIMEOUT_S, late_commit_s=LATE_COMMIT_S)
async def refund_if_asked(ctx: Ctx[Shop], order_id: str) -> Refund:
    """Refund an order once a person has approved: a write without a rule asks."""
    return await _refund(ctx, order_id)


@refund_if_asked.lookup
async def find_asked(ctx: Ctx[Shop], order_id: str) -> Refund | None:
    return await ctx.deps.refund_of(order_id, f"pay_{order_id}_2")


def script(view: View) -> Turn:
    """Ten steps, then hand in."""
    given = msgspec.convert(view.inputs, Inputs)
    if given.is_deadly:
        os.kill(os.getpid(), signal.SIGKILL)
    if view.is_final:
        return say("nothing more")
    if view.turn >= STEPS:
        return finish(Outcome(parts=STEPS))
    if given.writes and view.turn == WRITE_AT:
        return call(refund_if_asked if given.asks else refund, order_id=given.order_id)
    gate = given.gate if view.turn == GATE_AT else ""
    return call(look, part=view.turn, pace_s=given.pace_s, gate=gate)


steps: Agent[Any] = Agent(
    "steps",
    model="m",
    instructions="Go through all parts.",
    tools=[look, refund, refund_if_asked],
    output=Outcome,
    budget=Budget(max_steps=24, max_tokens=10_000_000, max_seconds=900),
)


@steps.done
def all_done(draft: Draft[Any]) -> Unmet | None:
    """Every part was looked at or refunded."""
    done = len(draft.results(look)) + len(draft.results(refund))
    done += len(draft.results(refund_if_asked))
    return None if done >= STEPS else Unmet(f"{done} of {STEPS} steps")


app = App(steps, deps=open_shop, script=script)
