"""One run as ``show`` prints it, its line in ``ls``, and its terminal result."""

from messages.base import Timestamp
from messages.canon import shown
from messages.ledger import RunRow, Summary
from messages.state import LoopState, Outstanding, Question, ToolRecord
from messages.status import Status
from messages.task import Result
from runtime.views.approvals import waiting_approvals
from runtime.views.values import (
    View,
    evidence_view,
    hash_or_none,
    iso,
    iso_or_none,
    limits_view,
    seconds,
    tokens_view,
    usd,
)


def show_run(
    state: LoopState, row: RunRow, *, at: int | None = None, now: Timestamp | None = None
) -> View:
    """The object of ``show RUN -o json``.

    Args:
        state: The run, folded up to what is shown.
        row: The run as the ledger lists it now.
        at: The version asked for; None is the newest. An older one shows nothing of the present.
        now: The ledger's clock, to count a suspension that is still open; None leaves it out.
    """
    is_newest = at is None or at >= row.version
    status = row.shown_status if is_newest else state.status
    return {
        "v": 1,
        **_identity(state),
        "status": str(status),
        "reason": state.reason,
        "until": iso_or_none(state.until),
        "version": state.version,
        "step_count": state.step_count,
        "reserved": _reserved(state),
        "limits": limits_view(state.limits),
        "usage": usage_view(state, now if is_newest else None),
        "created_at": iso(state.created_at),
        "updated_at": iso(state.updated_at),
        "deadline_at": _deadline(state),
        **_work(state),
        **_family(state),
    }


def list_row(row: RunRow) -> View:
    """One line of ``ls``."""
    summary = row.summary
    return {
        "run_id": row.run_id,
        "agent": summary.agent,
        "tenant": row.tenant,
        "principal": summary.principal,
        "goal": summary.goal,
        "labels": summary.labels,
        "status": str(row.shown_status),
        "reason": summary.reason,
        "until": iso_or_none(summary.until),
        "version": row.version,
        "step_count": summary.step_count,
        "limits": limits_view(summary.limits),
        "usage": {
            **tokens_view(summary.usage),
            "usd": usd(summary.cost_microusd),
            "active_seconds": seconds(summary.active_s),
        },
        "created_at": iso(row.created_at),
        "updated_at": iso(row.updated_at),
        "parent": row.parent,
        "continues": row.continues,
    }


def result_of(state: LoopState) -> Result:
    """The terminal result, as it lies in the results stream."""
    return Result(
        run_id=state.run_id,
        agent=state.agent,
        status=str(state.status),
        reason=state.reason,
        output=state.output,
        summary=state.summary,
        usage=usage_view(state),
        version=state.version,
    )


def without_payloads(view: View) -> View:
    """``show`` for a reply that would be too large: observations keep all but their payload."""
    slim = [
        {**{k: v for k, v in item.items() if k != "payload"}, "omitted": "too_large"}
        for item in view["evidence"]
    ]
    return {**view, "evidence": slim}


def usage_view(state: LoopState, now: Timestamp | None = None) -> View:
    """What a run used; an open suspension is counted up to ``now``."""
    suspended = state.suspended_s
    if now is not None and state.suspended_at is not None and not state.status.is_terminal:
        suspended += max(0.0, now - state.suspended_at)
    return {
        **tokens_view(state.usage),
        "usd": usd(state.spent.cost_microusd),
        "active_seconds": seconds(state.active_s),
        "suspended_seconds": seconds(suspended),
        "waited_seconds": seconds(state.waited_s),
        "model_seconds": seconds(state.model_s),
        "tool_seconds": seconds(state.tool_s),
        "model_calls": state.model_calls,
        "tool_calls": state.tool_calls,
        "tool_errors": state.tool_errors,
        "escalations": state.escalations,
        "flags": state.flags,
        "models": list(state.models),
    }


def log_fields(state: LoopState) -> View:
    """The metrics of an ended run, for the one log line about its end."""
    return {
        "status": str(state.status),
        "reason": state.reason,
        "steps": state.step_count,
        **usage_view(state),
        "models": " + ".join(state.models),
    }


def ended_at_once(summary: Summary) -> View:
    """The same of a run that ended when it was created, having used nothing."""
    return {"status": str(summary.status), "reason": summary.reason, "steps": 0, "tokens": 0}


def _identity(state: LoopState) -> View:
    return {
        "run_id": state.run_id,
        "trace_id": state.trace_id,
        "agent": state.agent,
        "agent_code": hash_or_none(state.agent_code) or "",
        "tenant": state.tenant,
        "principal": state.identity.principal,
        "scopes": list(state.identity.scopes),
        "goal": state.goal,
        "inputs": state.inputs,
        "labels": state.labels,
    }


def _work(state: LoopState) -> View:
    waiting = waiting_approvals(state)
    return {
        "evidence": [evidence_view(item) for item in state.evidence],
        "tool_history": [_tool_record(record) for record in state.tool_history],
        "outstanding": [
            _outstanding(item) for item in state.outstanding if item.status != "dropped"
        ],
        "approval": waiting[0] if waiting else None,
        "approvals": waiting,
        "question": _question(question_of(state)),
        "output": state.output,
        "summary": state.summary,
    }


def _family(state: LoopState) -> View:
    return {
        "parent": state.parent,
        "children": list(state.children),
        "continues": state.continues,
    }


def _reserved(state: LoopState) -> View | None:
    """The most the step under way may cost; it counts in neither steps nor usage yet."""
    held = state.reservation
    if held is None:
        return None
    return {
        "step": held.step,
        "tokens": held.most.tokens,
        "usd": usd(held.most.cost_microusd),
        "is_final": held.is_final,
    }


def _deadline(state: LoopState) -> str | None:
    """When the active seconds run out if nothing interrupts; null while no time is counted."""
    if state.status is not Status.RUNNING:
        return None
    return iso(state.updated_at + max(0.0, state.limits.max_seconds - state.active_s))


def _tool_record(record: ToolRecord) -> View:
    return {
        "step": record.step,
        "tool": record.tool,
        "args_hash": shown(record.args_hash),
        "idempotency_key": record.idempotency_key,
        "outcome": record.outcome,
        "evidence_id": record.evidence_id,
    }


def _outstanding(item: Outstanding) -> View:
    """A side effect in its life; what was dropped did not happen and stands in the history."""
    return {
        "kind": item.kind,
        "key": item.key,
        "status": item.status,
        "verification": item.verification,
        "action_hash": shown(item.action_hash),
        "step": item.step,
    }


def question_of(state: LoopState) -> Question | None:
    """The question a person can answer: the open one, or the one a NEEDS_INPUT run ended with.

    The id of the latter comes from its step, so that a continuation's id can be derived from it.
    """
    if state.question is not None or state.status is not Status.NEEDS_INPUT:
        return state.question
    turn = state.turn
    if turn is None or turn.proposal.kind != "ask_user":
        return Question(id=f"q-{state.step_count}", text=state.reason)
    return Question(id=f"q-{turn.step}", text=turn.proposal.text, schema=turn.proposal.schema)


def _question(question: Question | None) -> View | None:
    if question is None:
        return None
    return {
        "id": question.id,
        "text": question.text,
        "schema": question.schema,
        "group": question.group,
    }
