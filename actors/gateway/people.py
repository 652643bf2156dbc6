"""What a person decides: approvals, answers, and the continuation of a run that asked."""

import re

from actors.gateway.entitlement import check_answerer, check_approver
from actors.gateway.runs import App, Runs
from messages import api
from messages.canon import shown
from messages.errors import Conflict, NotFound, UsageError
from messages.ledger import AnswerQuestion, ApprovalRow, DecideApproval, Missing, Refused
from messages.parts import JsonValue
from messages.state import LoopState, Question
from messages.status import Status
from messages.subjects import ApiAddress
from runtime.bus.port import Bus
from runtime.intake import check_value, continued_run_id
from runtime.views import approval_detail, question_of
from runtime.views.reading import Reader
from runtime.views.values import View, iso

MAX_ANSWER_BYTES = 64 * 1024
CHANNEL = "api"


class People:
    """The verbs that need a person's own credential: approve, deny, answer.

    Guarantees: the person is the one whose NATS user sent the request; entitlement is checked
    against the approval as the ledger has it; the ledger's compare-and-set has the last word.
    """

    def __init__(self, bus: Bus, app: App, runs: Runs) -> None:
        self._bus = bus
        self._app = app
        self._runs = runs

    async def approve(self, sender: ApiAddress, body: api.Decide) -> View:
        """Allow exactly the action whose hash the person saw."""
        return await self._decide(sender, body, is_approved=True)

    async def deny(self, sender: ApiAddress, body: api.Decide) -> View:
        """Say no, with a reason that the model is told."""
        if not body.reason.strip():
            raise UsageError("a denial needs a reason", hint="deny ID --reason TEXT")
        return await self._decide(sender, body, is_approved=False)

    async def answer(self, sender: ApiAddress, body: api.Answer) -> View:
        """Answer the open question of a run, or go on from one that ended with a question."""
        check_value("answer", body.answer, MAX_ANSWER_BYTES)
        read = await self._reader(sender).history(body.run_id)
        state = read.fold()
        question = question_of(state)
        if question is None or body.question_id not in {None, question.id}:
            raise _not_asked(state, body.question_id)
        check_answerer(self._app.settings, sender, question.group)
        if state.status is Status.NEEDS_INPUT:
            return await self._continue(state, question, body.answer)
        return await self._answer(sender, body, question.id)

    async def _decide(self, sender: ApiAddress, body: api.Decide, *, is_approved: bool) -> View:
        _check_hash(body.action)
        reader = self._reader(sender)
        row = await reader.approval(body.approval_id)
        check_approver(self._app.settings, sender, row)
        answer = await self._bus.ask(
            DecideApproval(
                tenant=sender.tenant,
                approval_id=body.approval_id,
                decision="approved" if is_approved else "denied",
                person=sender.principal,
                credential=f"nats:{sender.tenant}/{sender.principal}",
                channel=CHANNEL,
                confirmed_hash=body.action.lower(),
                reason=body.reason,
            )
        )
        if isinstance(answer, Missing):
            raise NotFound("approval", body.approval_id)
        if isinstance(answer, Refused):
            row = await reader.approval(body.approval_id)
            raise Conflict(_why_not(row, answer.why, body), why=answer.why)
        await self._runs.nudge(sender.tenant, answer.approval.run_id)
        return {"v": 1, "approval": approval_detail(answer.approval)}

    async def _answer(self, sender: ApiAddress, body: api.Answer, question_id: str) -> View:
        answer = await self._bus.ask(
            AnswerQuestion(
                tenant=sender.tenant,
                run_id=body.run_id,
                question_id=question_id,
                answer=body.answer,
                person=sender.principal,
            )
        )
        if isinstance(answer, Missing):
            raise NotFound("question", question_id)
        if isinstance(answer, Refused):
            raise Conflict(
                f"question {question_id}: {_WORDS.get(answer.why, answer.why)}", why=answer.why
            )
        await self._runs.nudge(sender.tenant, body.run_id)
        return {"v": 1, "run_id": body.run_id, "question_id": question_id, "existing": False}

    async def _continue(self, state: LoopState, question: Question, answer: JsonValue) -> View:
        """Answering twice continues once."""
        run_id = continued_run_id(state.run_id, question.id)
        told = {"question": question.text, "answer": answer}
        accepted = await self._runs.go_on(state, told, run_id)
        return {
            "v": 1,
            "run_id": accepted.run_id,
            "question_id": question.id,
            "existing": accepted.existing,
            "continues": state.run_id,
        }

    def _reader(self, sender: ApiAddress) -> Reader:
        return Reader(self._bus.ask, sender.tenant, self._app.clock.now)


def _check_hash(action: str) -> None:
    if action and not re.fullmatch(r"[0-9a-fA-F]{12,64}", action):
        raise UsageError("an action hash is 12 to 64 hex digits", hint="as approvals show says")


_WORDS = {
    "ALREADY_ANSWERED": "it was answered already",
    "ENDED": "its run has ended",
    "CANCEL_PENDING": "its run is being cancelled",
    "EXPIRED": "it has expired",
}
"""The ledger's reasons for people."""


def _why_not(row: ApprovalRow, why: str, body: api.Decide) -> str:
    """Why an approval could not be decided, with who was first."""
    match why:
        case "ALREADY_DECIDED":
            at = iso(row.decided_at) if row.decided_at is not None else ""
            return f"approval {row.id} was {row.state} by {row.person} at {at}"
        case "HASH_MISMATCH":
            seen, is_now = shown(body.action), shown(row.action_hash)
            return f"approval {row.id}: you saw action {seen}, it is {is_now}; read it again"
        case "EXPIRED":
            return f"approval {row.id} expired at {iso(row.expires_at)}"
        case _:
            return f"approval {row.id}: {_WORDS.get(why, why)}"


def _not_asked(state: LoopState, question_id: str | None) -> Conflict:
    if state.status.is_terminal:
        return Conflict(f"run {state.run_id} has ended {state.status}", why="ENDED")
    if question_id is not None and state.answers > 0:
        return Conflict(f"question {question_id} is not open", why="ALREADY_ANSWERED")
    return Conflict(f"run {state.run_id} asks nothing; it is {state.status}", why="NOT_WAITING")
