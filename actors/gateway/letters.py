"""Dead letters for people: look at what was set aside, try it again, or drop it with a reason."""

import base64
from collections.abc import AsyncGenerator
from typing import Any

import msgspec

from actors.gateway.entitlement import check_operator
from actors.gateway.runs import App
from messages import api, subjects
from messages.errors import Conflict, NotFound, TreadleError, UsageError
from messages.subjects import ApiAddress
from runtime.bus.port import Bus, Stored
from runtime.intake import DeadLetter, lenient
from runtime.log import Level, Line, log
from runtime.views.values import View

MOST = 500


class Letters:
    """The verbs letters, letter_retry and letter_drop.

    Guarantees: a letter leaves the stream only after its task is in the task stream again, under
    the very subject and bytes that were refused, or by a person's word; nobody reaches another
    tenant's letters.
    """

    def __init__(self, bus: Bus, app: App) -> None:
        self._bus = bus
        self._app = app

    async def list(self, sender: ApiAddress, body: api.Letters) -> View:
        """Verb letters."""
        check_operator(self._app.settings, sender)
        if body.id is not None:
            kept = await self._get(sender, body.id)
            return {"v": 1, "letters": [_view(kept, has_payload=True)]}
        limit = max(1, min(body.limit, MOST))
        rows = [_view(kept) async for kept in self._each(sender, limit)]
        return {"v": 1, "letters": rows}

    async def count(self, sender: ApiAddress) -> int:
        """How many there are, ``MOST`` at most."""
        return len([kept.sequence async for kept in self._each(sender, MOST)])

    async def retry(self, sender: ApiAddress, body: api.RetryLetter) -> View:
        """Verb letter_retry."""
        check_operator(self._app.settings, sender)
        kept = await self._get(sender, body.id)
        letter = _task_of(kept)
        address = subjects.parse_task(letter.subject)
        if self._app.settings.tenants and address.tenant != sender.tenant:
            raise NotFound("letter", str(body.id))
        self._app.agent(address.agent)
        created = await self._bus.stream_created(subjects.DEAD_STREAM)
        name = f"retry-{created}-{kept.sequence}"
        await self._bus.publish_durable(letter.subject, _payload(letter), message_id=name)
        await self._remove(kept)
        log(Line.CONTROL, verb="letter_retry", letter=kept.sequence, person=sender.principal)
        return {"v": 1, "letter": _view(kept)}

    async def drop(self, sender: ApiAddress, body: api.DropLetter) -> View:
        """Verb letter_drop."""
        check_operator(self._app.settings, sender)
        if not body.reason.strip():
            raise UsageError("dropping a letter needs a reason", hint="dlq drop ID --reason TEXT")
        kept = await self._get(sender, body.id)
        # the last that is ever known of this task: a warning, so that it is not filtered away
        log(
            Line.CONTROL,
            Level.WARNING,
            verb="letter_drop",
            letter=kept.sequence,
            subject=kept.subject,
            person=sender.principal,
            reason=body.reason,
        )
        await self._remove(kept)
        return {"v": 1, "letter": _view(kept)}

    async def _remove(self, kept: Stored) -> None:
        try:
            await self._bus.discard(subjects.DEAD_STREAM, kept.sequence)
        except NotFound:  # somebody else was quicker; it is gone
            return

    async def _each(self, sender: ApiAddress, limit: int) -> AsyncGenerator[Stored]:
        after, found = 0, 0
        while found < limit:
            kept = await self._bus.stored(subjects.DEAD_STREAM, self._filter(sender), after=after)
            if kept is None:
                return
            yield kept
            after, found = kept.sequence, found + 1

    async def _get(self, sender: ApiAddress, letter_id: int) -> Stored:
        kept = None
        if letter_id > 0:
            kept = await self._bus.stored(
                subjects.DEAD_STREAM, self._filter(sender), after=letter_id - 1
            )
        if kept is None or kept.sequence != letter_id:
            raise NotFound("letter", str(letter_id), hint="treadle dlq ls")
        return kept

    def _filter(self, sender: ApiAddress) -> str:
        """Whose letters: the tenant's own; without ``[tenants]`` also those that name none."""
        return subjects.dead(sender.tenant if self._app.settings.tenants else "*", "*", "*")


def _view(kept: Stored, *, has_payload: bool = False) -> View:
    """One line of ``dlq ls``; with its payload for ``dlq show``."""
    _, _, tenant, kind, _ = kept.subject.split(".", 4)
    letter = _letter_of(kept)
    run_id, _ = lenient(_payload(letter), None)
    view: View = {
        "id": kept.sequence,
        "kind": kind,
        "tenant": tenant,
        "subject": letter.subject,
        "run_id": run_id,
        "code": letter.code,
        "message": letter.message,
        "hint": letter.hint,
        "at": letter.at,
        "deliveries": letter.deliveries,
        "payload_bytes": letter.payload_bytes,
        "is_cut": letter.is_cut,
    }
    if has_payload:
        view |= {"payload": letter.payload, "encoding": letter.encoding}
    return view


def _letter_of(kept: Stored) -> DeadLetter:
    """The letter; bytes that are none become one that says so, since nothing may stay unseen."""
    try:
        return msgspec.json.decode(kept.data, type=DeadLetter)
    except msgspec.DecodeError:
        text = kept.data.decode(errors="replace")
        return DeadLetter(
            subject=kept.subject,
            code="UNREADABLE",
            message="this is no dead letter that this version knows",
            payload=text,
            encoding="text",
            payload_bytes=len(kept.data),
            is_cut=False,
            deliveries=0,
            sequence=kept.sequence,
            at="",
        )


def _task_of(kept: Stored) -> DeadLetter:
    """The letter, if its task can be published again exactly as it was."""
    letter = _letter_of(kept)
    try:
        _: Any = subjects.parse_task(letter.subject)
    except TreadleError as error:
        raise Conflict(
            f"letter {kept.sequence} is about no task that could be sent again", why="NO_TASK"
        ) from error
    if letter.is_cut:
        raise Conflict(
            f"letter {kept.sequence} keeps only a part of its {letter.payload_bytes} bytes",
            why="CUT",
            hint="submit the task anew",
        )
    return letter


def _payload(letter: DeadLetter) -> bytes:
    if letter.encoding == "base64":
        return base64.b64decode(letter.payload)
    return letter.payload.encode()
