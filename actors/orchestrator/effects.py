"""Step 6 of a drive: running calls, and finding out what became of the ones that may have run.

The order around a write never varies: Intended is durable, then Execute, then Claim and the effect
in the executor, then Settle, then Observed. Whatever breaks it leaves the call intended, and an
intended call is reconciled before anything else happens in the run (DESIGN.md section 6).
"""

from typing import TYPE_CHECKING

import anyio
from msgspec.structs import replace

from messages import events as e
from messages import execution
from messages.agent import AgentSpec, ToolSpec
from messages.authority import Authorise, Grant
from messages.errors import BusError, RemoteFailure, TreadleError
from messages.ledger import Elsewhere, Happened, Started, Void, Voided
from messages.parts import Problem
from messages.state import CallState
from messages.status import Reason, Status
from runtime.loop import directives as d
from runtime.loop.next import MAX_INTENTS

if TYPE_CHECKING:
    from actors.orchestrator.drive import Drive

MAX_PARALLEL = 16
"""Calls of one turn that run at once."""
_SLACK_S = 5.0
"""On top of a tool's deadline: claim, settle and the way there and back."""
_READ_TRIES = 3
_CANCEL_POLL_S = 0.25


def deadline_of(agent: AgentSpec, tool: str) -> float:
    """Seconds after which an executor's answer is not waited for."""
    spec = agent.tool(tool)
    return (spec.timeout_s if spec else 30.0) + _SLACK_S


def _tool(drive: "Drive", call: CallState) -> ToolSpec:
    spec = drive.agent.tool(call.tool)
    if spec is None:
        raise AssertionError(f"{call.tool} was validated and is not a tool")
    return spec


# ------------------------------------------------------------------ execute
async def execute(drive: "Drive", directive: d.Execute) -> bool:
    """Run allowed calls at once; the writes among them only after their intent is durable."""
    if any(drive.grant(drive.call(o).grant_id) is None for o in directive.ordinals):
        return await drive.authorise(directive.ordinals)  # the grant died with its process
    if not await _intend(drive, directive.ordinals):
        return True
    ordinals = [o for o in directive.ordinals if drive.call(o).phase in {"allowed", "intended"}]
    outcomes: dict[int, execution.Outcome | None] = {}
    limiter = anyio.CapacityLimiter(MAX_PARALLEL)

    async def one(ordinal: int) -> None:
        async with limiter:
            outcomes[ordinal] = await _run(drive, drive.call(ordinal))

    async with anyio.create_task_group() as tasks:
        for ordinal in ordinals:
            tasks.start_soon(one, ordinal)
    for ordinal in ordinals:
        _observe(drive, ordinal, outcomes[ordinal])
    return True


async def _intend(drive: "Drive", ordinals: tuple[int, ...]) -> bool:
    """Make the intents of this turn's writes durable. False: a cancel came with the answer."""
    is_any = False
    for ordinal in ordinals:
        call = drive.call(ordinal)
        action = call.action
        if action is None or action.key is None:
            continue
        if call.intents >= MAX_INTENTS:
            _end(drive, ordinal, "not_started", "INTENTS", "It could not be started in five tries.")
            continue
        intend(drive, call)
        is_any = True
    if not is_any:
        return True
    await drive.commit()
    if not any(signal.kind == "cancel" for signal in drive.pen.signals):
        return True
    for ordinal in ordinals:
        if drive.call(ordinal).phase == "intended":
            _end(drive, ordinal, "not_started", "CANCELLED", "The run was cancelled before it ran.")
    return False


def intend(drive: "Drive", call: CallState) -> None:
    """Note that this write may start from now on."""
    action, spec = call.action, _tool(drive, call)
    if action is None or action.key is None or spec.effect == "read":
        raise AssertionError("only a write with a key is intended")
    drive.pen.add(
        e.Intended(
            step=drive.turn_step,
            ordinal=call.ordinal,
            tool=call.tool,
            key=action.key,
            action_hash=action.action_hash,
            grant_id=call.grant_id,
            effect=spec.effect,
            settle_after_s=spec.settle_after_s,
        )
    )


async def _run(drive: "Drive", call: CallState) -> execution.Outcome | None:
    """Ask an executor. None: for a write, that it may have happened."""
    action, grant = call.action, drive.grant(call.grant_id)
    if action is None or grant is None:
        return None
    is_write = action.key is not None
    state = drive.pen.state
    request = execution.Execute(
        tenant=state.tenant,
        run_id=state.run_id,
        principal=state.identity.principal,
        agent=state.agent,
        step=drive.turn_step,
        action=action,
        grant=grant,
        evidence_id=state.next_evidence_id,
        now=drive.pen.now(),
    )
    problem: Problem | None = None
    for attempt in range(1 if is_write else _READ_TRIES):
        if attempt:
            await drive.clock.sleep(0.1 * 2**attempt)
        try:
            return await drive.asker.bus.ask(
                request, deadline_s=deadline_of(drive.agent, call.tool)
            )
        except BusError as error:
            problem = Problem(code=error.code, message=error.message)
        except RemoteFailure as error:
            problem = Problem(code=error.remote_code, message=error.message)
            break
        except TreadleError as error:
            problem = Problem(code=error.code, message=error.message)
            break
    return None if is_write else execution.Outcome(kind="error", problem=problem)


def _observe(drive: "Drive", ordinal: int, outcome: execution.Outcome | None) -> None:
    """Note a call's result under the next evidence id; order is the request's, not the arrival's."""
    if outcome is None:
        drive.pen.add(e.Observed(step=drive.turn_step, ordinal=ordinal, kind="unknown"))
        return
    evidence = outcome.evidence
    if evidence is not None:
        evidence = replace(evidence, id=drive.pen.state.next_evidence_id)
    drive.pen.add(
        e.Observed(
            step=drive.turn_step,
            ordinal=ordinal,
            kind=outcome.kind,
            evidence=evidence if outcome.kind == "ok" else None,
            problem=outcome.problem,
            attempts=outcome.attempts,
            claimed_at=outcome.claimed_at,
        )
    )


def _end(drive: "Drive", ordinal: int, kind: str, code: str, message: str) -> None:
    drive.pen.add(
        e.Observed(
            step=drive.turn_step,
            ordinal=ordinal,
            kind=kind,  # pyright: ignore[reportArgumentType] - one of two literals above
            problem=Problem(code=code, message=message),
        )
    )


# ------------------------------------------------------------------ reconcile
async def reconcile(drive: "Drive", directive: d.Reconcile) -> bool:
    """Void first; then what was settled, a replay, a lookup after W, or a person."""
    call = drive.call(directive.ordinal)
    action = call.action
    if action is None or action.key is None:
        raise AssertionError("only a write is reconciled")
    state = drive.pen.state
    found = await drive.asker.ledger(
        Void(tenant=state.tenant, run_id=state.run_id, key=action.key, grant_id=call.grant_id)
    )
    match found:
        case Voided():
            return _voided(drive, call, is_cancelling=directive.is_cancelling)
        case Happened():
            evidence = found.evidence
            if evidence is not None:
                evidence = replace(evidence, id=state.next_evidence_id)
            _note(drive, call, "happened", "settled", evidence=evidence)
            return True
        case Elsewhere():
            _end(drive, call.ordinal, "not_started", "KEY_BUSY", "Another run holds this key.")
            return True
        case Started():
            if directive.is_cancelling:
                return await _cancelled(drive, found)
            return await _started(drive, call, found)


def _voided(drive: "Drive", call: CallState, *, is_cancelling: bool) -> bool:
    if is_cancelling:
        _end(drive, call.ordinal, "not_started", "CANCELLED", "The run was cancelled before it ran.")
    elif call.intents >= MAX_INTENTS:
        _end(drive, call.ordinal, "not_started", "INTENTS", "It could not be started in five tries.")
    else:
        _note(drive, call, "absent", "void")
    return True


def _note(  # noqa: PLR0913 - one fact
    drive: "Drive",
    call: CallState,
    finding: str,
    how: str,
    *,
    evidence: object = None,
    problem: Problem | None = None,
) -> None:
    drive.pen.add(
        e.Reconciled(
            step=drive.turn_step,
            ordinal=call.ordinal,
            key=call.action.key or "" if call.action else "",
            finding=finding,  # pyright: ignore[reportArgumentType]
            how=how,  # pyright: ignore[reportArgumentType]
            evidence=evidence,  # pyright: ignore[reportArgumentType]
            problem=problem,
        )
    )


async def _cancelled(drive: "Drive", found: Started) -> bool:
    """A cancelled run gives a started write the grace period to settle, then ends without it."""
    if found.now < found.last_claim_at + drive.times.grace_s and not drive.is_draining:
        await drive.clock.sleep(_CANCEL_POLL_S)
        return True
    return await drive.finish(d.Finish(status=Status.CANCELLED, reason=Reason.EFFECT_UNSETTLED))


async def _started(drive: "Drive", call: CallState, found: Started) -> bool:
    spec = _tool(drive, call)
    settled_by = found.last_claim_at + spec.settle_after_s
    is_replayable = (
        spec.replay_for_s is not None
        and found.now < found.first_claim_at + spec.replay_for_s
        and call.intents < MAX_INTENTS
    )
    if is_replayable and (call.intents <= 1 or found.now >= settled_by):
        return await _replay(drive, call)
    if found.now < settled_by:
        return await drive.suspend(
            d.Suspend(status=Status.WAITING, reason=Reason.TIMER, until=settled_by + 0.1)
        )
    if spec.has_lookup:
        return await _look_up(drive, call)
    return await _undecidable(drive, call, "the downstream can neither be asked nor be repeated to")


async def _undecidable(drive: "Drive", call: CallState, why: str) -> bool:
    problem = Problem(code="UNKNOWN_EFFECT", message=why)
    _note(drive, call, "undecidable", "none", problem=problem)
    return await drive.finish(
        d.Finish(status=Status.FAILED, reason=Reason.UNKNOWN_EFFECT, why=why)
    )


async def _replay(drive: "Drive", call: CallState) -> bool:
    """The same key again: a downstream that honours it answers with what happened."""
    grant = await _grant(drive, call, is_replay=True)
    if grant is None:
        return await _undecidable(drive, call, "policy no longer allows the replay")
    intend(drive, replace(call, grant_id=grant.id))
    await drive.commit()
    outcome = await _run(drive, drive.call(call.ordinal))
    if outcome is not None and outcome.kind != "unknown":
        _observe(drive, call.ordinal, outcome)
    return True


async def _look_up(drive: "Drive", call: CallState) -> bool:
    grant = await _grant(drive, call, is_replay=False)
    if grant is None or call.action is None:
        return await _undecidable(drive, call, "policy no longer allows the lookup")
    state = drive.pen.state
    try:
        finding = await drive.asker.again(
            execution.Reconcile(
                tenant=state.tenant,
                run_id=state.run_id,
                principal=state.identity.principal,
                agent=state.agent,
                step=drive.turn_step,
                action=call.action,
                grant=grant,
                evidence_id=state.next_evidence_id,
                now=drive.pen.now(),
            ),
            deadline_s=deadline_of(drive.agent, call.tool),
        )
    except RemoteFailure as error:
        finding = execution.Finding(
            kind="undecidable", problem=Problem(code=error.remote_code, message=error.message)
        )
    if finding.kind == "undecidable":
        message = finding.problem.message if finding.problem else "the lookup could not decide"
        return await _undecidable(drive, call, message)
    _note(drive, call, finding.kind, "lookup", evidence=finding.evidence)
    return True


async def _grant(drive: "Drive", call: CallState, *, is_replay: bool) -> Grant | None:
    """Authority to settle a call whose outcome is unknown."""
    state = drive.pen.state
    if call.action is None:
        return None
    answer = await drive.asker.again(
        Authorise(
            tenant=state.tenant,
            run_id=state.run_id,
            agent=state.agent,
            version=state.version,
            step=drive.turn_step,
            actions=(call.action,),
            purpose="execute" if is_replay else "lookup",
            replays=(call.ordinal,),
            sent_at=drive.pen.now(),
        )
    )
    drive.hold(answer.grant)
    return answer.grant
