"""The journal of order 8472 up to its refund, by hand: what views and readers are tested on."""

from messages.agent import AgentSpec, ToolSpec
from messages.authority import Grant, GrantedAction, Verdict
from messages.canon import action_hash, canonical, sha256_hex
from messages.events import (
    Accepted,
    AnyEvent,
    ApprovalRequested,
    ApprovalResolved,
    Assessed,
    Authorised,
    Decided,
    Intended,
    Observed,
    Rechecked,
    Resumed,
    RunCreated,
    StepReserved,
    Suspended,
)
from messages.ledger import ApprovalRow, ClaimRecord, EffectRow, Entry, RunRow
from messages.parts import Action, Amount, Arguments, Evidence, Identity, Limits, Reservation, Usage
from messages.state import LoopState
from messages.status import Status
from runtime.loop.evolve import fold
from runtime.loop.summary import summarise

T0 = 1_761_600_000.0
RUN = "task-8472-a"
KEY = "refund:order-8472:pay_5a2:v1"
ARGUMENTS: Arguments = {"order_id": "8472", "payment_id": "pay_5a2", "amount_inr": 2000}
HASH = action_hash("issue_refund", ARGUMENTS, KEY)
PACKAGE = canonical({"tool": "issue_refund", "arguments": ARGUMENTS})
PACKAGE_HASH = sha256_hex(PACKAGE)
GRANT = Grant(
    id="grt-2",
    tenant="default",
    run_id=RUN,
    step=2,
    actions=(GrantedAction(ordinal=0, tool="issue_refund", action_hash=HASH, key=KEY),),
    expires_at=T0 + 700,
)
ORDER = Evidence(
    id="ev-1",
    tool="lookup_order",
    request_id="req-8472-01",
    fetched_at=T0 + 1.5,
    duration_s=0.063,
    source="payments-service",
    payload={"order_id": "8472", "total_inr": 2000},
)
REFUND = Evidence(
    id="ev-2",
    tool="issue_refund",
    request_id="req-8472-02",
    fetched_at=T0 + 603.0,
    duration_s=0.5,
    source="refunds-service",
    payload={"refund_id": "rf-1", "status": "pending"},
)

SPEC = AgentSpec(
    name="refund",
    code="ab" * 32,
    model="scripted",
    instructions="Resolve refunds.",
    tools=(
        ToolSpec(
            name="lookup_order",
            description="Read one order.",
            kind="read",
            parameters={"type": "object"},
            scope="orders:read",
            source="payments-service",
        ),
        ToolSpec(
            name="issue_refund",
            description="Refund one payment.",
            kind="write",
            parameters={"type": "object"},
            scope="refunds:write",
            source="refunds-service",
            key="refund:order-{order_id}:{payment_id}:v1",
            replay_for_s=86_400.0,
        ),
    ),
    limits=Limits(max_steps=8, max_tokens=40_000, max_seconds=120.0),
)


def created() -> RunCreated:
    """The first event."""
    return RunCreated(
        goal="Order 8472 was charged twice.",
        inputs={"order_id": "8472"},
        agent="refund",
        agent_code="ab" * 32,
        identity=Identity(tenant="default", principal="submitter", scopes=("orders:read",)),
        limits=Limits(max_steps=8, max_tokens=40_000, max_cost_microusd=500_000, max_seconds=120.0),
        labels={"channel": "mail"},
        trace_id="trace-7f3a",
        created_at=T0,
    )


def reserved(step: int) -> StepReserved:
    """A step is paid for."""
    most = Amount(tokens=3000, cost_microusd=12_500)
    return StepReserved(
        reservation=Reservation(step=step, most=most, output_tokens=1000, take_id="tk-1")
    )


def decided(step: int, tool: str, arguments: Arguments, tokens: int) -> Decided:
    """The model asks for one call."""
    return Decided(
        step=step,
        content=({"type": "tool_use", "id": f"tu-{step}", "name": tool, "input": arguments},),
        stop_reason="tool_use",
        usage=Usage(input_tokens=tokens - 60, output_tokens=60),
        charged=Amount(tokens=tokens, cost_microusd=4_100),
        model="scripted",
        started_at=T0 + step,
        duration_s=1.25,
        request_id=f"msg-{step}",
    )


def refund_action() -> Action:
    """The refund as it was validated."""
    return Action(
        ordinal=0, tool="issue_refund", arguments=ARGUMENTS, key=KEY, action_hash=HASH, size=2000
    )


def _version_1() -> tuple[AnyEvent, ...]:
    arguments: Arguments = {"order_id": "8472"}
    digest = action_hash("lookup_order", arguments, None)
    action = Action(ordinal=0, tool="lookup_order", arguments=arguments, action_hash=digest)
    allowed = Verdict(ordinal=0, decision="allow", rule="scope")
    return (
        decided(1, "lookup_order", arguments, 1260),
        Accepted(step=1, actions=(action,)),
        Authorised(step=1, verdicts=(allowed,), policy="p12", grant=None),
        Observed(step=1, ordinal=0, kind="ok", evidence=ORDER),
        Assessed(step=1),
        reserved(2),
    )


def _version_2() -> tuple[AnyEvent, ...]:
    asked = Verdict(
        ordinal=0,
        decision="ask",
        rule="over_limit",
        why="above the automatic limit",
        group="support-lead",
        size=2000,
    )
    return (
        decided(2, "issue_refund", ARGUMENTS, 1705),
        Accepted(step=2, actions=(refund_action(),)),
        Authorised(step=2, verdicts=(asked,), policy="p12"),
        ApprovalRequested(
            step=2,
            ordinal=0,
            approval_id="apr-5521",
            tool="issue_refund",
            action_hash=HASH,
            key=KEY,
            group="support-lead",
            size=2000,
            rule="over_limit",
            why="above the automatic limit",
            expires_at=T0 + 7203,
            package=PACKAGE_HASH,
        ),
        Suspended(status=Status.AWAITING_APPROVAL, reason="over_limit", until=T0 + 7203),
    )


def _version_3() -> tuple[AnyEvent, ...]:
    allowed = Verdict(ordinal=0, decision="allow", rule="over_limit")
    return (
        Resumed(why="decision"),
        ApprovalResolved(
            step=2,
            ordinal=0,
            approval_id="apr-5521",
            decision="approved",
            person="approver",
            channel="api",
            confirmed_hash=HASH[:12],
            decided_at=T0 + 600,
        ),
        Accepted(step=2, actions=(refund_action(),)),
        Authorised(step=2, verdicts=(allowed,), policy="p12", grant=GRANT),
        Rechecked(step=2, ordinal=0),
        Intended(
            step=2,
            ordinal=0,
            tool="issue_refund",
            key=KEY,
            action_hash=HASH,
            grant_id="grt-2",
            effect="replay",
        ),
    )


def _version_4() -> tuple[AnyEvent, ...]:
    return (
        Observed(step=2, ordinal=0, kind="ok", evidence=REFUND, claimed_at=T0 + 602),
        Assessed(step=2),
        reserved(3),
    )


def journal() -> tuple[Entry, ...]:
    """Versions 0 to 4: created, read, asked, approved and intended, done."""
    checkpoints: list[tuple[float, float, tuple[AnyEvent, ...]]] = [
        (T0, 0.0, (created(), reserved(1))),
        (T0 + 2.0, 2.0, _version_1()),
        (T0 + 4.0, 2.0, _version_2()),
        (T0 + 601.0, 0.5, _version_3()),
        (T0 + 603.5, 2.5, _version_4()),
    ]
    return tuple(
        Entry(
            tenant="default",
            run_id=RUN,
            version=version,
            append_id=f"apd-{version}",
            at=at,
            active_s=active_s,
            hash=f"{version:064x}",
            events=events,
        )
        for version, (at, active_s, events) in enumerate(checkpoints)
    )


def state_at(version: int) -> LoopState:
    """The run, folded up to a version."""
    return fold(journal()[: version + 1])


def row_at(version: int, *, owner: str | None = None) -> RunRow:
    """The run's row at a version."""
    state = state_at(version)
    return RunRow(
        tenant="default",
        run_id=RUN,
        version=version,
        head_hash=state.head_hash,
        summary=summarise(state),
        created_at=T0,
        updated_at=state.updated_at,
        owner=owner,
    )


def approval(state: str = "approved") -> ApprovalRow:
    """The refund's approval."""
    is_decided = state != "pending"
    return ApprovalRow(
        tenant="default",
        id="apr-5521",
        run_id=RUN,
        agent="refund",
        principal="submitter",
        step=2,
        ordinal=0,
        tool="issue_refund",
        action_hash=HASH,
        key=KEY,
        group="support-lead",
        size=2000,
        rule="over_limit",
        why="above the automatic limit",
        package=PACKAGE_HASH,
        requested_at=T0 + 3,
        expires_at=T0 + 7203,
        state="approved" if is_decided else "pending",
        person="approver" if is_decided else "",
        channel="api" if is_decided else "",
        decided_at=T0 + 600 if is_decided else None,
    )


def effect() -> EffectRow:
    """The refund's key."""
    return EffectRow(
        tenant="default",
        key=KEY,
        state="done",
        run_id=RUN,
        step=2,
        ordinal=0,
        tool="issue_refund",
        action_hash=HASH,
        effect="replay",
        grant_id="grt-2",
        claims=(ClaimRecord(claim_id="clm-1", grant_id="grt-2", at=T0 + 602),),
        evidence=REFUND,
        updated_at=T0 + 602.5,
    )
