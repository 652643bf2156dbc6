"""Step 6 of a drive: running allowed calls, the writes only after their intent is durable.

The order around a write never varies: Intended is durable, then Execute, then Claim and the effect
in the executor, then Settle, then Observed. Whatever breaks it leaves the call intended, and an
intended call is reconciled before anything else happens in the run (DESIGN.md section 6).
"""

from collections.abc import Callable, Coroutine
from typing import Any

import anyio
from msgspec.structs import replace

from actors.orchestrator.checks import authorise, deadline_of
from actors.orchestrator.hand import Hand
from actors.orchestrator.recorded import recorded
from messages import events as e
from messages import execution
from messages.agent import ToolSpec
from messages.authority import Grant
from messages.errors import (
    Busy,
    NoResponders,
    RemoteFailure,
    Silent,
    TreadleError,
    Unreachable,
)
from messages.parts import Evidence, Problem
from messages.state import CallState
from runtime.artifacts import INLINE_BYTES, keep_if_large
from runtime.asking import GiveUp
from runtime.faults import fault
from runtime.loop import directives as d
from runtime.loop.next import MAX_INTENTS

MAX_PARALLEL = 16
"""Calls of one turn that run at once."""
CANCELLED_TEXT = "The run was cancelled before this ran."
INTENTS_TEXT = "It could not be started in five tries."
TURN_BYTES = 384 * 1024
"""Results of one turn that lie in the journal itself; an entry must fit the broker's limit."""
_MIN_INLINE_BYTES = 4 * 1024
_FIRST_PAUSE_S = 0.2
_LONGEST_PAUSE_S = 2.0
_AWAY_S = 20.0
"""How long there may be no executor for a tool, as of every other role."""
_READ_TRIES = 5
"""Executors that may fall silent over one read."""


def tool_of(hand: Hand, call: CallState) -> ToolSpec:
    """What the agent says of a validated call's tool."""
    spec = hand.agent.tool(call.tool)
    if spec is None:
        raise AssertionError(f"{call.tool} was validated and is not a tool")
    return spec


async def execute(hand: Hand, directive: d.Execute) -> bool:
    """Run allowed calls at once; the writes among them only after their intent is durable."""
    if any(hand.grant(hand.call(o).grant_id) is None for o in directive.ordinals):
        return await authorise(hand, directive.ordinals)  # the grant died with its process
    if not await _intend(hand, directive.ordinals):
        return True
    ordinals = [o for o in directive.ordinals if hand.call(o).phase in {"allowed", "intended"}]
    outcomes: dict[int, execution.Outcome | None] = {}
    away: list[GiveUp] = []

    async def one(ordinal: int) -> None:
        call = hand.call(ordinal)
        is_open = call.grant_expires_at > hand.pen.now() + hand.times.skew_s
        if not is_open or hand.interrupt.is_heard:  # authorised anew, or voided
            return
        # a read is cut at a cancel; a write that may have started has its time to settle
        with hand.interrupt.cutting(grace_s=hand.times.grace_s if call.phase == "intended" else 0):
            try:
                outcomes[ordinal] = await recorded(hand, call) or await ask_executor(hand, call)
            except GiveUp as error:  # the others of the turn have their time
                away.append(error)
        fault("orchestrator.after_execute")

    await side_by_side(one, ordinals)
    for ordinal in sorted(outcomes):
        observe(hand, ordinal, await _light(hand, outcomes[ordinal], len(outcomes)))
    if away:
        raise away[0]
    return True


async def side_by_side(
    one: Callable[[int], Coroutine[Any, Any, None]], ordinals: list[int]
) -> None:
    """Do ``one`` for each, at most ``MAX_PARALLEL`` at once."""
    if len(ordinals) == 1:  # by far the most frequent, and no task is made for it
        await one(ordinals[0])
        return
    limiter = anyio.CapacityLimiter(MAX_PARALLEL)

    async def limited(ordinal: int) -> None:
        async with limiter:
            await one(ordinal)

    async with anyio.create_task_group() as tasks:
        for ordinal in ordinals:
            tasks.start_soon(limited, ordinal)


async def _light(
    hand: Hand, outcome: execution.Outcome | None, together: int
) -> execution.Outcome | None:
    if outcome is None:
        return None
    return replace(outcome, evidence=await light(hand, outcome.evidence, together))


async def light(hand: Hand, evidence: Evidence | None, together: int) -> Evidence | None:
    """Evidence that leaves room for the others beside it: they are one entry of the journal."""
    if evidence is None or together <= 1 or evidence.ref is not None:
        return evidence
    payload, ref = await keep_if_large(
        hand.asking,
        hand.pen.state.tenant,
        evidence.payload,
        inline_bytes=min(INLINE_BYTES, max(_MIN_INLINE_BYTES, TURN_BYTES // together)),
    )
    return replace(evidence, payload=payload, ref=ref)


async def _intend(hand: Hand, ordinals: tuple[int, ...]) -> bool:
    """Make the intents of this turn's writes durable. False: a cancel came with the answer."""
    is_any = False
    for ordinal in ordinals:
        call = hand.call(ordinal)
        action = call.action
        if action is None or action.key is None:
            continue
        if call.intents >= MAX_INTENTS:
            not_started(hand, ordinal, "INTENTS", INTENTS_TEXT)
            continue
        intend(hand, call)
        is_any = True
    if not is_any:
        return True
    fault("orchestrator.before_intended")
    await hand.commit()
    fault("orchestrator.after_intended")
    if not any(signal.kind == "cancel" for signal in hand.pen.signals):
        return True
    for ordinal in ordinals:
        if hand.call(ordinal).phase == "intended":
            not_started(hand, ordinal, "CANCELLED", CANCELLED_TEXT)
    return False


def intend(hand: Hand, call: CallState) -> None:
    """Note that this write may start from now on."""
    action, spec = call.action, tool_of(hand, call)
    if action is None or action.key is None or spec.effect == "read":
        raise AssertionError("only a write with a key is intended")
    hand.pen.add(
        e.Intended(
            step=hand.turn_step,
            ordinal=call.ordinal,
            tool=call.tool,
            key=action.key,
            action_hash=action.action_hash,
            grant_id=call.grant_id,
            effect=spec.effect,
            settle_after_s=spec.settle_after_s,
        )
    )


async def ask_executor(hand: Hand, call: CallState) -> execution.Outcome | None:
    """Ask an executor. None: for a write, that it may have happened.

    Asked again while nobody has taken it, which starts nothing twice; and a read whose executor
    fell silent, which changes nothing.

    Raises:
        GiveUp: for a read, that there was no executor for too long; it can be asked for later.
    """
    action, grant = call.action, hand.grant(call.grant_id)
    if action is None or grant is None:
        return None
    is_write = action.key is not None
    evidence_id = hand.pen.state.next_evidence_id
    request = hand.order(execution.Execute, action, grant, evidence_id=evidence_id)
    started, tries = hand.clock.monotonic(), 0
    while True:
        try:
            return await hand.asking.bus.ask(request, deadline_s=deadline_of(hand.agent, call.tool))
        except TreadleError as error:
            tries += 1
            if isinstance(error, NoResponders | Busy | Unreachable):
                is_over = not _may_wait(hand, grant, hand.clock.monotonic() - started)
                if is_over and not is_write:
                    raise GiveUp("executor", error) from error
            else:
                is_over = is_write or not isinstance(error, Silent) or tries >= _READ_TRIES
            if is_over:
                return None if is_write else execution.Outcome(kind="error", problem=_told(error))
        await hand.clock.sleep(min(_FIRST_PAUSE_S * 2 ** (tries - 1), _LONGEST_PAUSE_S))


def _may_wait(hand: Hand, grant: Grant, waited_s: float) -> bool:
    """Whether an executor that is away may still come back in time for this grant."""
    ends = grant.expires_at - hand.times.skew_s
    return waited_s < _AWAY_S and hand.pen.now() < ends and not hand.is_draining


def _told(error: TreadleError) -> Problem:
    code = error.remote_code if isinstance(error, RemoteFailure) else error.code
    return Problem(code=code, message=error.message)


def observe(hand: Hand, ordinal: int, outcome: execution.Outcome | None) -> None:
    """Note a call's result under the next evidence id, in the order of the request."""
    if outcome is None:
        hand.pen.add(e.Observed(step=hand.turn_step, ordinal=ordinal, kind="unknown"))
        return
    evidence = outcome.evidence
    if evidence is not None:
        evidence = replace(evidence, id=hand.pen.state.next_evidence_id)
    hand.pen.add(
        e.Observed(
            step=hand.turn_step,
            ordinal=ordinal,
            kind=outcome.kind,
            evidence=evidence if outcome.kind == "ok" else None,
            problem=outcome.problem,
            attempts=outcome.attempts,
            claimed_at=outcome.claimed_at,
        )
    )


def not_started(hand: Hand, ordinal: int, code: str, message: str) -> None:
    """A call ends without having run."""
    hand.pen.add(
        e.Observed(
            step=hand.turn_step,
            ordinal=ordinal,
            kind="not_started",
            problem=Problem(code=code, message=message),
        )
    )
