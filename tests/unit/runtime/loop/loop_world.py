"""A pure world around the pure loop: it answers every directive by chance and checks every event.

No I/O, no actors: what an orchestrator, its roles, people and crashes could do to a run is drawn
from one seed. It keeps the journal as a ledger would (versions, commits, lost buffers), so a test
can fold it, render it and look at any moment of it.
"""

from random import Random
from typing import assert_never

from msgspec.structs import replace

from messages import events as e
from messages.agent import AgentSpec, ErrorSpec, ToolSpec
from messages.authority import Grant, Verdict
from messages.canon import action_hash
from messages.ledger import Entry, Signal
from messages.parts import Action, Amount, Block, Evidence, Limits, Problem, Reservation, Usage
from messages.state import CallState, LoopState
from messages.status import Reason, Status
from runtime.loop import budget, monitor
from runtime.loop import directives as d
from runtime.loop.evolve import evolve, fold_entry, seal
from runtime.loop.next import MAX_INTENTS, last_words, next_directive
from runtime.loop.start import first_entry

T0 = 1_700_000_000.0
MOST_DIRECTIVES = 3_000
"""A run of the small budgets used here that needs more than this goes in circles."""


def tool(name: str, **options: object) -> ToolSpec:
    """A tool as data."""
    is_write = "key" in options
    return ToolSpec(
        name=name,
        description=name,
        kind="write" if is_write else "read",
        parameters={"type": "object"},
        source=f"{name}-service",
        **options,  # pyright: ignore[reportArgumentType]
    )


TOOLS = (
    tool("look"),
    tool("scan"),
    tool("poll", is_polling=True),
    tool("pay", key="pay:{x}:v1", replay_for_s=3600.0, has_precondition=True),
    tool("mail", key="mail:{x}", has_lookup=True),
    tool("blast", key="blast:{x}"),
)

SPEC = AgentSpec(
    name="agent",
    code="c0de",
    model="scripted",
    instructions="Do it.",
    tools=TOOLS,
    limits=Limits(max_steps=6, max_tokens=60_000, max_seconds=100.0),
    prompt_bytes=2_000,
    max_output_tokens=1_000,
)


def use(ordinal: int, name: str, **arguments: object) -> Block:
    """A tool_use block."""
    return {"type": "tool_use", "id": f"tu-{ordinal}", "name": name, "input": arguments}


def text(words: str) -> Block:
    """A text block."""
    return {"type": "text", "text": words}


def action_of(call: CallState) -> Action:
    """The canonical action that a validator would make."""
    spec = next(t for t in TOOLS if t.name == call.tool)
    key = None if spec.kind == "read" else f"{call.tool}:{call.arguments.get('x')}"
    return Action(
        ordinal=call.ordinal,
        tool=call.tool,
        arguments=call.arguments,
        key=key,
        action_hash=action_hash(call.tool, call.arguments, key),
        is_polling=spec.is_polling,
    )


class World:
    """One run and what happens to it.

    Attributes:
        mood: How likely each kind of trouble is, drawn once per seed.
        journal: Entries as committed.
        state: Everything known, the buffer included; ``base``: what is durable.
    """

    def __init__(self, seed: int, *, spec: AgentSpec = SPEC, limits: Limits | None = None) -> None:
        self.seed = seed
        self.spec = spec
        self.rng = Random(seed)
        self.mood = {
            kind: self.rng.choice([0.0, 0.05, 0.3])
            for kind in ("crash", "bad", "deny", "ask", "unknown", "lost", "signal", "silent")
        }
        self.at = T0
        self.stretch = 0.0
        self.ids = 0
        self.take = "take-0"
        self.may_use = True
        self.crashes = 0
        self.waits_for_good = False
        self.buffer: list[e.AnyEvent] = []
        self.named: set[int] = set()
        self.signals: list[Signal] = []
        self.directives: list[str] = []
        self.approvals: set[str] = set()
        self.looked_up: list[str] = []
        events, _ = first_entry(
            spec,
            tenant="t",
            run_id="r",
            principal="p",
            scopes=(),
            goal="goal",
            inputs={"n": 1},
            labels={},
            limits=limits or spec.limits,
            trace_id="trace",
            now=T0,
        )
        self.journal = [self._entry(0, events)]
        self.base = self.state = fold_entry(None, self.journal[0])

    # ------------------------------------------------------------------ chance
    def chance(self, kind: str) -> bool:
        return self.rng.random() < self.mood[kind]

    def new_id(self, prefix: str) -> str:
        self.ids += 1
        return f"{prefix}-{self.ids}"

    # ------------------------------------------------------------------ ledger
    def _entry(self, version: int, events: tuple[e.AnyEvent, ...]) -> Entry:
        return Entry(
            tenant="t",
            run_id="r",
            version=version,
            append_id="",
            at=self.at,
            active_s=self.stretch,
            hash=f"h{version}",
            events=events,
        )

    def add(self, *events: e.AnyEvent) -> None:
        for event in events:
            self._check_before(event)
            self.state = evolve(self.state, event)
            self.buffer.append(event)
            self._check_state(event)

    def flush(self) -> None:
        if not self.buffer:
            return
        entry = self._entry(self.base.version + 1, tuple(self.buffer))
        if any(isinstance(event, e.StepReserved) for event in self.buffer):
            self.may_use = True
        self.state = seal(self.state, entry.version, entry.hash, entry.at, entry.active_s)
        self.journal.append(entry)
        self.base, self.buffer, self.stretch = self.state, [], 0.0
        self.signals = [s for s in self.signals if s.id not in self.named]
        self.named = set()

    def crash(self) -> None:
        """The owner dies: what was not durable is gone, and an open reservation is lost."""
        self.crashes += 1
        self.state, self.buffer, self.named = self.base, [], set()
        self.looked_up = []  # what is not durable may be looked up again
        self.take, self.stretch = self.new_id("take"), 0.0
        self.may_use = False
        self._lose("its owner was lost")

    def _lose(self, why: str) -> None:
        if self.state.reservation is not None:
            most = self.state.reservation.most
            self.add(e.StepLost(step=self.state.reservation.step, charged=most, why=why))

    # ------------------------------------------------------------------ invariants
    def _check_before(self, event: e.AnyEvent) -> None:
        """Seeds/a: only authorised tools execute; each side effect has a key."""
        assert not self.state.status.is_terminal, "nothing changes after the end"
        match event:
            case e.Intended():
                call = self.call(event.ordinal)
                assert call.phase in {"allowed", "intended", "unknown"}, call.phase
                assert call.action is not None
                assert call.action.key == event.key
                assert event.key
                assert call.intents < MAX_INTENTS
            case e.Observed(kind="ok" | "error" | "unknown"):
                assert self.call(event.ordinal).phase in {"allowed", "intended", "unknown"}
            case e.Observed() | e.ProposalRejected(ordinal=int()) | e.Rechecked():
                assert self.call(event.ordinal or 0).phase != "observed", "one result per call"
            case e.StepReserved():
                self._check_turn_is_whole()
            case _:
                pass

    def _check_turn_is_whole(self) -> None:
        turn = self.state.turn
        if turn is None:
            return
        assert all(c.phase == "observed" and c.result is not None for c in turn.calls)
        assert [c.ordinal for c in turn.calls] == list(range(len(turn.calls)))

    def _check_state(self, event: e.AnyEvent) -> None:
        """Seeds/a: steps never exceed the limit; results have provenance; the end is explicit."""
        s = self.state
        open_steps = 1 if s.reservation and not s.reservation.is_final else 0
        assert s.step_count + open_steps <= s.limits.max_steps
        reserved = s.reservation.most if s.reservation else Amount()
        assert s.spent.tokens + reserved.tokens <= s.limits.max_tokens
        assert s.status.is_terminal == isinstance(event, e.Finished)
        known = {item.id for item in s.evidence}
        assert len(known) == len(s.evidence), "an evidence id is used once"
        for item in s.evidence:
            assert item.tool
            assert item.source
            assert item.request_id
        for call in s.turn.calls if s.turn else ():
            if call.result is not None and call.result.evidence_id is not None:
                assert call.result.evidence_id in known

    # ------------------------------------------------------------------ the drive
    def call(self, ordinal: int) -> CallState:
        assert self.state.turn is not None
        return self.state.turn.calls[ordinal]

    def moment(self) -> d.Moment:
        pending = [s for s in self.signals if s.id not in self.named]
        control = [s for s in pending if s.kind in {"pause", "resume"}]
        last = control[-1] if control else None
        return d.Moment(
            at=self.at,
            stretch_s=self.stretch,
            cancel=next((s for s in pending if s.kind == "cancel"), None),
            pause=last if last and last.kind == "pause" else None,
            is_resumed=last is not None and last.kind == "resume",
            is_signalled=bool(self.signals),
            take_id=self.take,
        )

    def play(self) -> "World":
        """Until the run has ended, or waits for something that never comes."""
        for _ in range(MOST_DIRECTIVES):
            self._interfere()
            self._fold_signals()
            directive = next_directive(self.state, self.spec, self.moment())
            self.directives.append(type(directive).__name__)
            if isinstance(directive, d.Nothing):
                return self
            self._perform(directive)
            if self.waits_for_good:
                assert self.state.status.is_suspended
                assert self.state.reason
                return self
        raise AssertionError(f"seed {self.seed} goes in circles: {self.directives[-30:]}")

    def _interfere(self) -> None:
        passed = self.rng.choice([0.0, 0.01, 0.5])
        self.at += passed
        self.stretch += passed
        if self.rng.random() < self.mood["crash"] / 4:
            self.crash()
        if self.rng.random() < self.mood["signal"] / 8:
            self._signal(self.rng.choice(["pause", "resume", "cancel"]))

    def _signal(self, kind: str, **fields: object) -> None:
        self.ids += 1
        signal = Signal(id=self.ids, kind=kind, at=self.at, person="eve", **fields)  # pyright: ignore[reportArgumentType]
        self.signals.append(signal)

    def _fold_signals(self) -> None:
        for signal in [s for s in self.signals if s.id not in self.named]:
            if signal.kind == "decision":
                self.named.add(signal.id)
                for call in self.state.turn.calls if self.state.turn else ():
                    if call.approval_id == signal.approval_id and call.phase == "waiting":
                        self.add(
                            e.ApprovalResolved(
                                step=self.state.turn.step if self.state.turn else 0,
                                ordinal=call.ordinal,
                                approval_id=signal.approval_id or "",
                                decision=signal.decision or "denied",
                                person="eve",
                                decided_at=self.at,
                            )
                        )
            elif signal.kind == "answer":
                self.named.add(signal.id)
                if self.state.question and self.state.question.id == signal.question_id:
                    self.add(
                        e.HumanAnswered(
                            question_id=signal.question_id or "",
                            answer="go on",
                            person="eve",
                            answered_at=self.at,
                        )
                    )

    def _perform(self, directive: d.Directive) -> None:  # noqa: C901, PLR0912, PLR0915 - one flat match over a closed union
        match directive:
            case d.Nothing():
                pass
            case d.LetGo():
                self.flush()
                self._outside()
            case d.Record():
                self.add(*directive.events)
            case d.Decide():
                self._decide(directive)
            case d.Validate():
                self._validate(directive.ordinals)
            case d.Authorise():
                self._authorise(directive.ordinals)
            case d.Recheck():
                for ordinal in directive.ordinals:
                    unmet = "not owed any more" if self.chance("deny") else None
                    self.add(e.Rechecked(step=self.step, ordinal=ordinal, unmet=unmet))
            case d.RequestApproval():
                self._request_approval(directive.ordinals)
            case d.AskPerson():
                self.add(
                    e.HumanAsked(
                        step=self.state.step_count,
                        question_id=self.new_id("q"),
                        text=directive.text,
                        group=directive.group,
                    )
                )
            case d.Execute():
                self._execute(directive.ordinals)
            case d.Reconcile():
                self._reconcile(directive)
            case d.Assess():
                self._assess()
            case d.Judge():
                self._judge(directive)
            case d.Verify():
                self._verify(directive.keys)
            case d.Suspend():
                self._suspend(directive.status, directive.reason, directive.until)
            case d.Finish():
                self._finish(directive)
            case _:
                assert_never(directive)

    @property
    def step(self) -> int:
        return self.state.turn.step if self.state.turn else self.state.step_count

    # ------------------------------------------------------------------ outside
    def _outside(self) -> None:
        """While nobody drives: people decide, time passes, or nothing ever comes."""
        if self.chance("silent") and self.state.until is None:
            self.waits_for_good = True
            return
        match self.state.status:
            case Status.AWAITING_APPROVAL:
                self._people()
            case Status.AWAITING_HUMAN if self.state.question is not None:
                self._signal("answer", question_id=self.state.question.id)
            case Status.PAUSED:
                self._signal("resume")
            case _:
                pass
        if self.state.until is not None:
            self.at = max(self.at, self.state.until)
        if self.rng.random() < self.mood["crash"]:
            self.take = self.new_id("take")

    def _people(self) -> None:
        calls = self.state.turn.calls if self.state.turn else ()
        waiting = [c for c in calls if c.phase == "waiting"]
        if waiting and not self.chance("silent"):
            chosen = self.rng.choice(waiting)
            verdict = "denied" if self.chance("deny") else "approved"
            self._signal("decision", approval_id=chosen.approval_id, decision=verdict)
            self.at -= (self.state.until or self.at) - self.at  # in time
            self.at = max(self.at, self.state.updated_at)

    def _suspend(self, status: Status, reason: str, until: float | None) -> None:
        if self.state.reservation is not None and not self.may_use:
            self._lose("the run was suspended")
        self.add(e.Suspended(status=status, reason=reason, until=until))
        self.named |= {s.id for s in self.signals if s.kind in {"pause", "resume"}}
        self.flush()

    def _finish(self, directive: d.Finish) -> None:
        if self.state.reservation is not None and not self.may_use:
            self._lose("the run ended")
        self.add(
            e.Finished(
                status=directive.status,
                reason=directive.reason,
                output=directive.output,
                why=directive.why,
            )
        )
        self.flush()

    # ------------------------------------------------------------------ deciding
    def _decide(self, directive: d.Decide) -> None:
        if directive.reserve is not None:
            self.add(e.StepReserved(reservation=directive.reserve))
            self.flush()
            return
        reservation = self.state.reservation
        assert reservation is not None
        if not self.may_use:
            self._lose("it was used and no decision is known")
            return
        if self.buffer:
            self.flush()
            return
        if not (reservation.is_final or self._is_prepared(reservation)):
            return
        self.may_use = False
        if self.chance("crash"):
            self.crash()
        elif self.chance("lost"):
            self._lose("silent")
        elif self.rng.random() < self.mood["lost"] / 10:
            self._lose("it failed")
            self._finish(d.Finish(status=Status.FAILED, reason=Reason.MODEL_UNAVAILABLE))
        else:
            self.add(self._answered(reservation))

    def _is_prepared(self, reservation: Reservation) -> bool:
        """What is reserved is enough; otherwise it has been reserved anew."""
        if self.rng.random() >= 0.05:
            return True
        most = Amount(tokens=reservation.most.tokens + self.rng.choice([50, 5_000, 50_000]))
        self._widen(budget.widened(self.state, reservation, most, reservation.output_tokens))
        return False

    def _widen(self, wider: Reservation | budget.Exhausted) -> None:
        if isinstance(wider, budget.Exhausted):
            unpaid = replace(self.state, reservation=None)
            ending = last_words(unpaid, self.spec, self.moment(), wider.reason)
            self._perform(ending)
            return
        self.add(e.StepReserved(reservation=wider))
        self.flush()

    def _answered(self, reservation: Reservation) -> e.Decided | e.Consulted:
        """What the model says to what was sent."""
        return self._decided(reservation.step, reservation.most)

    def _decided(self, step: int, most: Amount) -> e.Decided:
        content, stop_reason = self._words()
        tokens = self.rng.randint(1, most.tokens)
        return e.Decided(
            step=step,
            content=content,
            stop_reason=stop_reason,
            usage=Usage(input_tokens=tokens),
            charged=Amount(tokens=tokens),
            model="scripted",
            started_at=self.at,
            duration_s=0.1,
        )

    def _words(self) -> tuple[tuple[Block, ...], str]:
        roll = self.rng.random()
        if roll < self.mood["bad"] / 2:
            return (), "end_turn"
        if roll < self.mood["bad"]:
            return (text("Writing"), use(0, "look", x="cut")), "max_tokens"
        if roll < self.mood["bad"] * 1.05:
            return (text("No."),), "refusal"
        return self._proposal()

    def _proposal(self) -> tuple[tuple[Block, ...], str]:
        rare = ["ask", "give_up"] if self.rng.random() < 0.1 else ["calls"]
        kind = self.rng.choice(["calls"] * 8 + ["mixed", "finish", "say", "wait", "wait", *rare])
        match kind:
            case "calls" | "mixed":
                names = [t.name for t in TOOLS] + ["finish"] * (kind == "mixed")
                count = self.rng.choice([1, 1, 2, 4])
                return tuple(
                    use(i, self.rng.choice(names), x=f"x{self.rng.randint(0, 3)}")
                    for i in range(count)
                ), "tool_use"
            case "finish":
                return (use(0, "finish", output="done"),), "tool_use"
            case "say":
                return (text("All done."),), "end_turn"
            case "ask":
                return (use(0, "ask_user", question="Which?"),), "tool_use"
            case "wait":
                seconds = self.rng.choice([1, 50, 50, 0, 100_000])  # the last two are turned down
                return (use(0, "wait", seconds=seconds, why="later"),), "tool_use"
            case _:
                return (use(0, "give_up", why="no way"),), "tool_use"

    # ------------------------------------------------------------------ checking
    def _validate(self, ordinals: tuple[int, ...]) -> None:
        problem = Problem(code="BAD_ARGUMENTS", message="no")
        if not ordinals:
            if self.chance("bad"):
                self.add(e.ProposalRejected(step=self.step, problem=problem))
            else:
                self.add(e.Accepted(step=self.step, actions=()))
            return
        actions: list[Action] = []
        for ordinal in ordinals:
            call = self.call(ordinal)
            if call.tool == "finish" or (call.phase == "proposed" and self.chance("bad")):
                self.add(e.ProposalRejected(step=self.step, ordinal=ordinal, problem=problem))
            else:
                actions.append(call.action or action_of(call))
        if actions:
            self.add(e.Accepted(step=self.step, actions=tuple(actions)))

    def _authorise(self, ordinals: tuple[int, ...]) -> None:
        expires_at = self.at + 20.0
        grant = Grant(
            id=self.new_id("gr"),
            tenant="t",
            run_id="r",
            step=self.step,
            actions=(),
            expires_at=expires_at,
        )
        verdicts = tuple(self._verdict(self.call(ordinal)) for ordinal in ordinals)
        self.add(e.Authorised(step=self.step, verdicts=verdicts, policy="p", grant=grant))

    def _verdict(self, call: CallState) -> Verdict:
        is_approved = call.approval_id in self.approvals
        if self.chance("deny"):
            return Verdict(ordinal=call.ordinal, decision="deny", why="no")
        if self.chance("ask") and call.tool != "look" and not is_approved:
            return Verdict(
                ordinal=call.ordinal, decision="ask", group="g", expires_at=self.at + 50.0
            )
        return Verdict(ordinal=call.ordinal, decision="allow", rule="r")

    def _request_approval(self, ordinals: tuple[int, ...]) -> None:
        for ordinal in ordinals:
            call = self.call(ordinal)
            assert call.action is not None
            assert call.approval_expires_at is not None
            approval_id = self.new_id("apr")
            self.approvals.add(approval_id)
            self.add(
                e.ApprovalRequested(
                    step=self.step,
                    ordinal=ordinal,
                    approval_id=approval_id,
                    tool=call.tool,
                    action_hash=call.action.action_hash,
                    key=call.action.key,
                    group="g",
                    expires_at=call.approval_expires_at,
                    package="",
                )
            )

    # ------------------------------------------------------------------ doing
    def evidence(self, call: CallState) -> Evidence:
        return Evidence(
            id=self.state.next_evidence_id,
            tool=call.tool,
            request_id=self.new_id("req"),
            fetched_at=self.at,
            source="s",
            payload=self.rng.choice(["same", "same", self.ids, ["long"] * 50]),
        )

    def _execute(self, ordinals: tuple[int, ...]) -> None:
        writes = [o for o in ordinals if (a := self.call(o).action) and a.key is not None]
        for ordinal in writes:
            call = self.call(ordinal)
            if call.intents >= MAX_INTENTS:
                self.add(e.Observed(step=self.step, ordinal=ordinal, kind="not_started"))
            elif self.rng.random() < self.mood["unknown"] / 3:  # somebody holds the key
                kind = self.rng.choice(["ok", "refused"])
                evidence = self.evidence(call) if kind == "ok" else None
                self.add(
                    e.Observed(step=self.step, ordinal=ordinal, kind=kind, evidence=evidence)  # pyright: ignore[reportArgumentType]
                )
            else:
                self._intend(call)
        if writes:
            self.flush()
        if self.chance("crash"):
            self.crash()
            return
        for ordinal in ordinals:
            if self.call(ordinal).phase in {"allowed", "intended"}:
                self._observe(self.call(ordinal))

    def _intend(self, call: CallState) -> None:
        assert call.action is not None
        spec = next(t for t in TOOLS if t.name == call.tool)
        self.add(
            e.Intended(
                step=self.step,
                ordinal=call.ordinal,
                tool=call.tool,
                key=call.action.key or "",
                action_hash=call.action.action_hash,
                grant_id=call.grant_id,
                effect="blind" if spec.effect == "read" else spec.effect,
            )
        )

    def _observe(self, call: CallState) -> None:
        is_write = call.action is not None and call.action.key is not None
        if is_write and self.chance("unknown"):
            self.add(e.Observed(step=self.step, ordinal=call.ordinal, kind="unknown"))
        elif self.chance("bad"):
            problem = Problem(code="TOOL_FAILED", message="broken")
            self.add(
                e.Observed(step=self.step, ordinal=call.ordinal, kind="error", problem=problem)
            )
        else:
            evidence = self.evidence(call)
            self.add(e.Observed(step=self.step, ordinal=call.ordinal, kind="ok", evidence=evidence))

    def _reconcile(self, directive: d.Reconcile) -> None:
        call = self.call(directive.ordinal)
        roll = self.rng.random()
        if directive.is_cancelling and roll < 0.3:
            self._finish(d.Finish(status=Status.CANCELLED, reason=Reason.EFFECT_UNSETTLED))
        elif roll < 0.2 and call.intents < MAX_INTENTS and not directive.is_cancelling:
            self._intend(call)
            self.flush()
            if not self.chance("crash"):
                self._observe(self.call(directive.ordinal))
            else:
                self.crash()
        elif roll < 0.3 and not directive.is_cancelling:
            self._suspend(Status.WAITING, Reason.TIMER, self.at + 40.1)
        elif roll < 0.35:
            self._found(call, "undecidable")
            self._finish(d.Finish(status=Status.FAILED, reason=Reason.UNKNOWN_EFFECT))
        elif roll < 0.6 and not directive.is_cancelling:
            if call.intents >= MAX_INTENTS:
                self.add(e.Observed(step=self.step, ordinal=call.ordinal, kind="not_started"))
            else:
                self._found(call, "absent")
        else:
            self._found(call, "happened")

    def _found(self, call: CallState, finding: str) -> None:
        assert call.action is not None
        self.add(
            e.Reconciled(
                step=self.step,
                ordinal=call.ordinal,
                key=call.action.key or "",
                finding=finding,  # pyright: ignore[reportArgumentType]
                how="lookup",
                evidence=self.evidence(call) if finding == "happened" else None,
            )
        )

    # ------------------------------------------------------------------ judging
    def _assess(self) -> None:
        turn = self.state.turn
        assert turn is not None
        flags = monitor.assess(monitor.question(self.state, self.spec.progress))
        for flag in flags:
            self.add(
                e.ProgressFlagged(
                    step=turn.step,
                    ordinal=flag.ordinal,
                    kind=flag.kind,
                    level=flag.level,
                    message=flag.message,
                )
            )
        self.add(e.Assessed(step=turn.step))

    def _judge(self, directive: d.Judge) -> None:
        if self.rng.random() < 0.5:
            self.add(e.CompletionAccepted(step=self.step))
        elif directive.has_output:
            problem = Problem(code="COMPLETION_REJECTED", message="not yet")
            self.add(e.CompletionRejected(step=self.step, problem=problem))
        else:
            self.add(e.Judged(step=self.step, unmet="not yet"))

    def _verify(self, keys: tuple[str, ...]) -> None:
        """Some are found, some are not, some are cut off by a cancel before they are looked up."""
        for key in keys:
            if self.rng.random() < 0.1:
                return
            self.looked_up.append(key)
            problem = Problem(code="UNKNOWN", message="away") if self.chance("lost") else None
            is_there = problem is None and not self.chance("bad")
            self.add(e.Verified(step=self.step, key=key, is_there=is_there, problem=problem))


def variants() -> list[AgentSpec]:
    """Agents that differ in what the loop reads of them."""
    return [
        SPEC,
        replace(SPEC, has_done=True, on_policy_deny="tell"),
        replace(SPEC, output_schema={"type": "string"}, has_done=True, on_policy_deny="tell"),
        replace(
            SPEC,
            on_policy_deny="tell",
            errors=ErrorSpec(escalate_to="desk", max_consecutive=1, max_corrections=1),
        ),
        replace(SPEC, on_expired_approval="needs_input", on_policy_deny="tell"),
        replace(SPEC, limits=Limits(max_steps=30, max_tokens=9_000, max_seconds=1_000.0)),
        replace(SPEC, limits=Limits(max_steps=25, max_tokens=400_000, max_seconds=30.0)),
    ]


def folded(world: World) -> LoopState:
    """The journal, folded from nothing."""
    state: LoopState | None = None
    for entry in world.journal:
        state = fold_entry(state, entry)
    assert state is not None
    return state
