"""What must never happen, looked for at every commit, claim and effect, and once more at the end.

It keeps an account of its own from what is committed, and the downstream counts what happened, so
that a rule missing in the ledger cannot hide its own consequences. Only what people decided and
which cancels are pending is read from the ledger's rows.
"""

import hashlib
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from messages import events as e
from messages.authority import Grant
from messages.ledger import (
    AnyLedgerRequest,
    Append,
    Claim,
    Claimed,
    Committed,
    Conflicted,
    Create,
    Created,
    KeysTaken,
    Take,
    Taken,
)
from messages.parts import Limits, Reservation
from messages.status import Reason
from runtime.ledger.memory_tables import MemoryTables
from runtime.ledger.port import GroupAnswer
from tests.simulation.machine import Machine
from tests.simulation.options import TIMEOUT_S

TENANT = "default"
LAST_EVENTS = 50
BLIND = "gift:"
"""How the key of a write begins that always needs a person."""


@dataclass
class Account:
    """One run as the judge saw it grow."""

    head: str
    version: int = 0
    append_id: str = ""
    is_over: bool = False
    limits: Limits = field(default_factory=Limits)
    steps: int = 0
    finals: int = 0
    reserved: Reservation | None = None
    grants: dict[str, Grant] = field(default_factory=dict)
    approvals: set[str] = field(default_factory=set)
    claims: set[str] = field(default_factory=set)
    intents: dict[str, str] = field(default_factory=dict)
    """The key of each, by its grant."""


class Judge:
    """Collects violations.

    Attributes:
        violations: What was broken, in words that name the kind first.
        counts: What things cost: lost steps, conflicts, unknown outcomes.
        last: The newest events, for whoever has to understand a failure.
    """

    def __init__(self, machine: Machine, now: Callable[[], float]) -> None:
        """Args: now: the ledger's clock."""
        self.violations: list[str] = []
        self.counts: Counter[str] = Counter()
        self.last: deque[str] = deque(maxlen=LAST_EVENTS)
        self.runs: dict[str, Account] = {}
        self.goals: dict[str, str] = {}
        self.reservations: Counter[str] = Counter()
        """By goal: so often the model may be asked."""
        self.took: Callable[[Take], None] = lambda _op: None
        """Told of every take."""
        self._machine = machine
        self.now = now
        self.tables = MemoryTables()
        self._digest = hashlib.sha256()

    @property
    def digest(self) -> str:
        """Of everything that happened, in order."""
        return self._digest.hexdigest()

    def note(self, text: str) -> None:
        """Something happened."""
        line = f"{self._machine.time():9.4f} {text}"
        self.last.append(line)
        self._digest.update(line.encode())

    def broken(self, kind: str, text: str) -> None:
        """A promise was broken."""
        self.note(f"VIOLATION {kind}: {text}")
        self.violations.append(f"{kind}: {text} at {self._machine.time():.3f} s")

    # ------------------------------------------------------------------ commits
    def committed(self, op: AnyLedgerRequest, answer: GroupAnswer) -> None:
        """The ledger has just carried this out."""
        self.note(f"{type(op).__name__} {getattr(op, 'run_id', '')} {type(answer).__name__}")
        match op, answer:
            case Create(), Created():
                self._born(op)
            case Append(), Committed():
                self._grown(op, answer)
            case Take(), Taken():
                self.took(op)
            case Append(), Conflicted():
                self.counts["conflicts"] += 1
            case Append(), KeysTaken():
                self.counts["keys_taken"] += 1
            case Claim(), Claimed():
                self._claimed(op, answer)
            case _:
                pass

    def _born(self, op: Create) -> None:
        if op.run_id in self.runs:
            self.broken("run_twice", op.run_id)
        account = self.runs[op.run_id] = Account(head=self._head(op.run_id))
        self._tell(account, op.run_id, op.events)

    def _head(self, run_id: str) -> str:
        head = self.tables.run(TENANT, run_id)
        return head.head_hash if head else ""

    def _grown(self, op: Append, answer: Committed) -> None:
        account = self.runs[op.run_id]
        if op.append_id == account.append_id and answer.version == account.version:
            return  # the same entry again
        if op.version != account.version + 1 or op.prev_hash != account.head:
            self.broken("fork", f"{op.run_id} {account.version} -> {op.version}")
        if account.is_over:
            self.broken("after_the_end", f"{op.run_id} {op.version}")
        account.version, account.head = op.version, answer.hash
        account.append_id = op.append_id
        self._tell(account, op.run_id, op.events)
        if op.summary.usage.tokens > account.limits.max_tokens:
            self.broken("overspent", f"{op.run_id} {op.summary.usage.tokens}")

    def _tell(self, account: Account, run_id: str, events: Sequence[e.AnyEvent]) -> None:
        for event in events:
            self._note_event(account, run_id, event)
        if account.steps > account.limits.max_steps:
            self.broken("too_many_steps", f"{run_id} {account.steps}")
        if account.finals > 1:
            self.broken("two_final_turns", run_id)

    def _note_event(self, account: Account, run_id: str, event: e.AnyEvent) -> None:  # noqa: C901 -- one flat match
        self.note(f"  {run_id} {type(event).__name__} {_words(event)}")
        match event:
            case e.RunCreated():
                account.limits = event.limits
                self.goals[run_id] = event.goal
            case e.AttemptFailed():
                account.reserved = None
            case e.StepReserved():
                self.reservations[self.goals[run_id]] += account.reserved is None
                account.reserved = event.reservation
            case e.Decided() | e.StepLost() | e.Consulted():
                self._stepped(account, run_id, event)
            case e.Authorised(grant=Grant() as grant):
                account.grants[grant.id] = grant
            case e.ApprovalResolved(decision="approved"):
                if event.approval_id in account.approvals:
                    self.broken("approval_twice", event.approval_id)
                account.approvals.add(event.approval_id)
            case e.Intended():
                self.counts["unsettled"] += event.key in account.intents.values()
                account.intents[event.grant_id] = event.key
            case e.Reconciled() if event.how in {"lookup", "replay", "none"}:
                self.counts["unsettled"] += 1
            case e.Finished():
                self._ended(account, run_id, event)
            case _:
                pass

    def _ended(self, account: Account, run_id: str, event: e.Finished) -> None:
        """Whose tokens or steps are gone has had the turn that a tenth was kept for."""
        account.is_over = True
        self.counts[f"{event.status}"] += 1
        if event.reason in {Reason.UNKNOWN_EFFECT, Reason.EFFECT_UNSETTLED, Reason.POISON}:
            self.counts[event.reason] += 1
        tokens = max(account.limits.max_tokens // 10, 1_000)
        seconds = max(account.limits.max_seconds / 10, 10.0)
        has_room = account.limits.max_tokens >= 2 * tokens
        has_room &= account.limits.max_seconds >= 2 * seconds
        is_spent = event.reason in {Reason.MAX_TOKENS, Reason.MAX_STEPS, Reason.MAX_USD}
        if is_spent and has_room and account.steps and not account.finals:
            self.broken("no_final_turn", run_id)

    def _stepped(
        self, account: Account, run_id: str, event: e.Decided | e.StepLost | e.Consulted
    ) -> None:
        """A reservation is used up; the last turn and a summary are no steps."""
        self.counts["lost_steps"] += isinstance(event, e.StepLost)
        self.counts["summaries"] += isinstance(event, e.Consulted)
        is_silent = not isinstance(event, e.StepLost) and not event.is_usage_reported
        if is_silent and account.reserved and event.charged != account.reserved.most:
            self.broken("uncharged", f"{run_id}: {event.charged} of {account.reserved.most}")
        if account.reserved is not None and account.reserved.is_final:
            account.finals += 1
        elif account.reserved is None or not account.reserved.is_summary:
            account.steps += 1
        account.reserved = None

    # ------------------------------------------------------------------ effects
    def _claimed(self, op: Claim, answer: Claimed) -> None:
        account = self.runs[op.run_id]
        if op.claim_id in account.claims:
            return  # the same claim again
        account.claims.add(op.claim_id)
        if account.is_over:
            self.broken("claim_after_the_end", f"{op.run_id} {op.key}")
        if answer.at > op.expires_at:
            self.broken("claim_late", f"{op.run_id} {op.key}")
        if op.key not in account.intents.values():
            self.broken("claim_unintended", f"{op.run_id} {op.key}")
        is_cancelled = any(s.kind == "cancel" for s in self.tables.signals(TENANT, op.run_id))
        if is_cancelled and not op.is_replay:
            self.broken("claim_after_the_cancel", f"{op.run_id} {op.key}")
        if not op.is_replay:
            self._granted(account, op, answer.at)

    def _granted(self, account: Account, op: Claim, at: float) -> None:
        """A recorded grant covers the key, still holds, and rests on what it has to rest on.

        Of a grant for trying again only the intent is in the journal; an older one shows the rest.
        """
        key, grant = op.key, account.grants.get(op.grant_id)
        grants = [grant] if grant is not None else []
        if grant is None and account.intents.get(op.grant_id) == key:
            grants = list(account.grants.values())
        actions = [action for each in grants for action in each.actions if action.key == key]
        if not actions:
            self.broken("ungranted", key)
            return
        if grant is not None and at > grant.expires_at:
            self.broken("claim_late", f"{key}: the grant had ended")
        approval_id = actions[-1].approval_id
        if approval_id is not None:
            self._approved(approval_id, at)
        elif key.startswith(BLIND):
            self.broken("unapproved", key)

    def _approved(self, approval_id: str, at: float) -> None:
        row = self.tables.approval(TENANT, approval_id)
        if row is None or row.state != "approved":
            self.broken("unapproved", approval_id)
        elif at > row.expires_at:
            self.broken("approval_expired", approval_id)

    def asked(self, goal: str, times: int) -> None:
        """The model is asked, so often by now: each ask has a durable reservation of its own."""
        if times > self.reservations[goal]:
            self.broken("asked_too_often", f"{goal}: {times} of {self.reservations[goal]}")

    def sent(self, key: str) -> None:
        """A request leaves for the downstream."""
        row = self.tables.effect(TENANT, key)
        self.note(f"request {key}")
        if row is None or row.run_id not in self.runs:
            self.broken("no_intent", key)
        elif not row.claims:
            self.broken("no_claim", key)
        elif self.now() > row.claims[-1].at + TIMEOUT_S + 0.01:
            self.broken(
                "late_start", f"{key} {self.now() - row.claims[-1].at:.2f} s after its claim"
            )

    def happened(self, key: str, times: int) -> None:
        """The downstream has done it, so often by now."""
        self.note(f"effect {key}")
        if times > 1:
            self.broken("double_effect", key)


def _words(event: e.AnyEvent) -> str:
    """The little that tells one event from another."""
    names = ("ordinal", "kind", "key", "how", "finding", "status", "reason", "why", "until")
    shown = [f"{name}={value}" for name in names if (value := getattr(event, name, None))]
    return " ".join(shown)
