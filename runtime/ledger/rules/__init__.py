"""Which operation of the ledger is allowed and what it changes: the protocol itself.

Pure over the rows of one open transaction and ``now``: no I/O, no clock, no randomness, so SQLite,
PostgreSQL, the in-memory ledger and the simulator decide alike. Every operation looks at
everything it needs before it writes anything, so a refusal changes nothing.

``runs`` owner and lifetime of a run; ``append`` the one way a run's history grows; ``derive`` the
rows that follow from its events; ``effects`` idempotency keys; ``people`` approvals, questions,
holds; ``signals`` what waits for an owner; ``artifacts``; ``queries`` what only reads.

Source: DESIGN.md sections 4 to 6; each rule was modelled under fault schedules first.
"""

from typing import assert_never

from messages.ledger import (
    AnswerQuestion,
    AnyLedgerAnswer,
    AnyLedgerRequest,
    Append,
    Claim,
    Create,
    DecideApproval,
    Due,
    Fetch,
    Hold,
    Keep,
    Lift,
    ListApprovals,
    ListEffects,
    ListRuns,
    Load,
    Published,
    Release,
    Renew,
    ResolveEffect,
    SendSignal,
    Settle,
    Take,
    TallyRuns,
    Void,
)
from runtime.ledger.rules import append, artifacts, effects, people, queries, runs, signals
from runtime.ledger.tables import Tables

READS = (Load, Due, Fetch, ListRuns, ListApprovals, ListEffects, TallyRuns)
"""Operations that change nothing."""


def apply(t: Tables, op: AnyLedgerRequest, now: float) -> AnyLedgerAnswer:  # noqa: C901, PLR0912 -- one flat match over the closed union
    """Carry out one operation.

    Args:
        t: Rows of the open transaction.
        op: The operation.
        now: The ledger's time.

    Returns:
        Its answer. The caller commits before it sends it.

    Raises:
        BrokenChain: Load of a journal that does not hold together; nothing was changed.
    """
    match op:
        case Append():
            return append.append(t, op, now)
        case Take():
            return runs.take(t, op, now)
        case Claim():
            return effects.claim(t, op, now)
        case Settle():
            return effects.settle(t, op, now)
        case Void():
            return effects.void(t, op, now)
        case Create():
            return runs.create(t, op, now)
        case Release():
            return runs.release(t, op, now)
        case Renew():
            return runs.renew(t, op, now)
        case Published():
            return runs.published(t, op, now)
        case SendSignal():
            return signals.send(t, op, now)
        case DecideApproval():
            return people.decide(t, op, now)
        case AnswerQuestion():
            return people.answer(t, op, now)
        case ResolveEffect():
            return effects.resolve(t, op, now)
        case Hold():
            return people.hold(t, op, now)
        case Lift():
            return people.lift(t, op, now)
        case Keep():
            return artifacts.keep(t, op, now)
        case Fetch():
            return artifacts.fetch(t, op)
        case Load():
            return queries.load(t, op, now)
        case Due():
            return queries.due(t, op, now)
        case ListRuns():
            return queries.list_runs(t, op)
        case ListApprovals():
            return queries.list_approvals(t, op)
        case ListEffects():
            return queries.list_effects(t, op)
        case TallyRuns():
            return queries.tally_runs(t, op)
    assert_never(op)
