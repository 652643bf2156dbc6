"""The ledger's operations and their answers (DESIGN.md section 4).

Every operation is one transaction. ``now`` is always the ledger's clock. Which operation is
allowed and what it changes is decided in ``runtime.ledger.rules``; here are only the words.
"""

from messages.ledger.common import (
    Done,
    LedgerRequest,
    Missing,
    Refused,
    RunEnded,
)
from messages.ledger.effects import (
    Claim,
    Claimed,
    EffectResolved,
    Elsewhere,
    Happened,
    ResolveEffect,
    Settle,
    Settled,
    Started,
    Void,
    Voided,
)
from messages.ledger.people import (
    AnswerQuestion,
    ApprovalDecided,
    DecideApproval,
    Hold,
    Lift,
    SendSignal,
    SignalStored,
)
from messages.ledger.queries import (
    ApprovalRows,
    EffectRows,
    Fetch,
    Fetched,
    Keep,
    ListApprovals,
    ListEffects,
    ListRuns,
    RunRows,
)
from messages.ledger.rows import (
    ApprovalRow,
    ClaimRecord,
    EffectRow,
    Entry,
    HoldRow,
    KeyState,
    QuestionRow,
    RunRow,
    Signal,
    SignalKind,
    Summary,
)
from messages.ledger.runs import (
    Append,
    Committed,
    Conflicted,
    Create,
    Created,
    Due,
    DueRun,
    DueRuns,
    Existing,
    Held,
    KeysTaken,
    Load,
    Loaded,
    Published,
    Release,
    Renew,
    Stale,
    Take,
    Taken,
    TakenKey,
)
from messages.ledger.tally import (
    GroupBy,
    RunCursor,
    RunsOfEnding,
    RunsOfSteps,
    Tallies,
    Tally,
    TallyRuns,
)

__all__ = [
    "AnswerQuestion",
    "AnyLedgerAnswer",
    "AnyLedgerRequest",
    "Append",
    "ApprovalDecided",
    "ApprovalRow",
    "ApprovalRows",
    "Claim",
    "ClaimRecord",
    "Claimed",
    "Committed",
    "Conflicted",
    "Create",
    "Created",
    "DecideApproval",
    "Done",
    "Due",
    "DueRun",
    "DueRuns",
    "EffectResolved",
    "EffectRow",
    "EffectRows",
    "Elsewhere",
    "Entry",
    "Existing",
    "Fetch",
    "Fetched",
    "GroupBy",
    "Happened",
    "Held",
    "Hold",
    "HoldRow",
    "Keep",
    "KeyState",
    "KeysTaken",
    "LedgerRequest",
    "Lift",
    "ListApprovals",
    "ListEffects",
    "ListRuns",
    "Load",
    "Loaded",
    "Missing",
    "Published",
    "QuestionRow",
    "Refused",
    "Release",
    "Renew",
    "ResolveEffect",
    "RunCursor",
    "RunEnded",
    "RunRow",
    "RunRows",
    "RunsOfEnding",
    "RunsOfSteps",
    "SendSignal",
    "Settle",
    "Settled",
    "Signal",
    "SignalKind",
    "SignalStored",
    "Stale",
    "Started",
    "Summary",
    "Take",
    "Taken",
    "TakenKey",
    "Tallies",
    "Tally",
    "TallyRuns",
    "Void",
    "Voided",
]

AnyLedgerRequest = (
    Create
    | Take
    | Release
    | Renew
    | Append
    | Load
    | Due
    | Published
    | Claim
    | Void
    | Settle
    | ResolveEffect
    | SendSignal
    | DecideApproval
    | AnswerQuestion
    | Hold
    | Lift
    | Keep
    | Fetch
    | ListRuns
    | ListApprovals
    | ListEffects
    | TallyRuns
)

AnyLedgerAnswer = (
    Created
    | Existing
    | Taken
    | Held
    | RunEnded
    | Missing
    | Refused
    | Done
    | Committed
    | Conflicted
    | KeysTaken
    | Stale
    | Loaded
    | DueRuns
    | Claimed
    | Voided
    | Started
    | Happened
    | Elsewhere
    | Settled
    | EffectResolved
    | SignalStored
    | ApprovalDecided
    | Fetched
    | RunRows
    | ApprovalRows
    | EffectRows
    | Tallies
)
