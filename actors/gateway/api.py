"""The public API: one request in, one JSON object out, whatever happens.

Who asks is read off the subject, which NATS lets only that user publish on; nothing in a body says
who somebody is. Every ledger operation carries the tenant of the subject.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from actors.gateway.calls import Calls
from actors.gateway.checkup import Checkup
from actors.gateway.control import Control
from actors.gateway.effects import Effects
from actors.gateway.letters import Letters
from actors.gateway.people import People
from actors.gateway.runs import App, Birth, Runs, Sender
from messages import api
from messages.codec import decode_as, encode
from messages.errors import (
    NotFound,
    RemoteFailure,
    TooLarge,
    TreadleError,
    UsageError,
    WireError,
)
from messages.subjects import ApiAddress, TaskAddress, parse_api
from messages.task import Task
from runtime.bus.failures import INTERNAL
from runtime.bus.port import Bus, Delivery
from runtime.intake import admit, code_of, trace_of
from runtime.log import Level, Line, describe, log
from runtime.views import agent_row, tool_rows, without_payloads
from runtime.views.reading import Reader
from runtime.views.values import View, iso

Answering = Callable[[ApiAddress, Any, Delivery], Awaitable[View]]
"""One verb; the body has been decoded as ``api.VERBS`` says, so its type is the verb's own."""


class Api:
    """Answers one request at a time; any number at once."""

    def __init__(self, bus: Bus, app: App, runs: Runs) -> None:
        self._bus = bus
        self._app = app
        self._runs = runs
        self._verbs: dict[str, Answering] = {
            "submit": self._submit,
            "agents": self._agents,
            "tools": self._tools,
            "ping": self._ping,
            **self._reading(),
            **_working(bus, app, runs),
        }

    def _reading(self) -> "dict[str, Answering]":
        return {
            "show": lambda who, body, _: self._reader(who).show(body),
            "trace": lambda who, body, _: self._reader(who).trace(body),
            "list": lambda who, body, _: self._reader(who).list_runs(body),
            "metrics": lambda who, body, _: self._reader(who).metrics(body),
            "events": lambda who, body, _: self._reader(who).events(body),
            "approvals": lambda who, body, _: self._reader(who).approvals(body),
            "effects": lambda who, body, _: self._reader(who).effects(body),
        }

    async def take(self, delivery: Delivery) -> None:
        """Answer one request; never raises."""
        if not delivery.reply:
            return
        view: View | None = None
        try:
            view = await self._answer(delivery)
            reply = msgspec.json.encode(view)
        except TreadleError as error:
            reply = encode(error_reply(error))
        except Exception as error:  # noqa: BLE001 -- the asker must hear of whatever went wrong
            log(Line.HANDLER_FAILED, Level.ERROR, subject=delivery.subject, **describe(error))
            body = api.ErrorBody(code=INTERNAL, message="the gateway failed; its log says where")
            reply = encode(api.ErrorReply(error=body))
        await self._send(delivery.reply, reply, view)

    async def refuse(self, delivery: Delivery, error: TreadleError) -> None:
        """Answer with a refusal, without doing anything."""
        if delivery.reply:
            await self._send(delivery.reply, encode(error_reply(error)), None)

    async def _answer(self, delivery: Delivery) -> View:
        sender = parse_api(delivery.subject)
        answering = self._verbs.get(sender.verb)
        if answering is None:
            known = ", ".join(sorted(self._verbs))
            raise NotFound("verb", sender.verb, hint=f"one of {known}")
        try:
            body = decode_as(delivery.data or b"{}", api.VERBS[sender.verb])
        except WireError as error:
            raise UsageError(error.message) from error
        return await answering(sender, body, delivery)

    async def _send(self, reply_to: str, reply: bytes, view: View | None) -> None:
        """Send it; what is too large is sent without the payloads it may do without."""
        try:
            await self._bus.publish(reply_to, reply)
        except TooLarge as error:
            if view is not None and "evidence" in view:
                slim = without_payloads(view)
                await self._send(reply_to, msgspec.json.encode(slim), None)
            else:
                await self._send(reply_to, encode(error_reply(error)), None)
        except TreadleError as error:  # whoever asked notices by itself
            log(Line.BUS_ERROR, Level.WARNING, subject=reply_to, code=error.code)

    async def _submit(self, who: ApiAddress, body: api.Submit, delivery: Delivery) -> View:
        task = Task(
            goal=body.goal,
            inputs=body.inputs,
            run_id=body.run_id,
            limits=body.limits,
            labels=body.labels,
        )
        address = TaskAddress(who.tenant, who.principal, body.agent)
        admitted = admit(task, address, self._app.agents, self._app.settings)
        birth = Birth(task.run_id or self._app.ids.new_id("run"), trace_of(delivery.headers))
        sender = Sender(who.tenant, who.principal)
        accepted = await self._runs.create(sender, task, admitted, birth)
        return {"v": 1, "run_id": accepted.run_id, "existing": accepted.existing}

    async def _agents(self, _who: ApiAddress, _body: api.Empty, _delivery: Delivery) -> View:
        rows = [agent_row(spec) for _, spec in sorted(self._app.agents.items())]
        return {"v": 1, "agents": rows}

    async def _tools(self, _who: ApiAddress, _body: api.Empty, _delivery: Delivery) -> View:
        return {"v": 1, "tools": tool_rows(self._app.agents.values())}

    async def _ping(self, who: ApiAddress, _body: api.Empty, _delivery: Delivery) -> View:
        now = iso(self._app.clock.now())
        return {"v": 1, "tenant": who.tenant, "principal": who.principal, "at": now}

    def _reader(self, who: ApiAddress) -> Reader:
        return Reader(self._bus.ask, who.tenant, self._app.clock.now)


def _working(bus: Bus, app: App, runs: Runs) -> dict[str, Answering]:
    """The verbs that have a room of their own."""
    people, control = People(bus, app, runs), Control(bus, app, runs)
    calls, letters, checkup = Calls(app, runs), Letters(bus, app), Checkup(bus, app)
    effects = Effects(bus, app, runs)
    return {
        "approve": lambda who, body, _: people.approve(who, body),
        "deny": lambda who, body, _: people.deny(who, body),
        "answer": lambda who, body, _: people.answer(who, body),
        "cancel": lambda who, body, _: control.cancel(who, body),
        "pause": lambda who, body, _: control.pause(who, body),
        "resume": lambda who, body, _: control.resume(who, body),
        "effect_resolve": lambda who, body, _: effects.resolve(who, body),
        "call": lambda who, body, _: calls.call(who, body),
        "letters": lambda who, body, _: letters.list(who, body),
        "letter_retry": lambda who, body, _: letters.retry(who, body),
        "letter_drop": lambda who, body, _: letters.drop(who, body),
        "checkup": lambda who, _body, _: checkup.run(who),
    }


def error_reply(error: TreadleError) -> api.ErrorReply:
    """An error as the API says it."""
    code = error.remote_code if isinstance(error, RemoteFailure) else code_of(error)
    return api.ErrorReply(
        error=api.ErrorBody(
            code=code, message=error.message, hint=error.hint, retryable=error.retryable
        )
    )
