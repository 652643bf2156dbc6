"""Refusals and dead letters: a task that becomes no run is answered and kept, never lost."""

import base64
from typing import Any

import msgspec

from messages.base import Timestamp
from messages.errors import Conflict, TreadleError
from messages.subjects import TaskAddress, identifier, may_reply_to
from messages.task import Refusal
from runtime.views.values import iso

MAX_LETTER_BYTES = 256 * 1024
"""A dead letter keeps so much of the payload it is about."""


def lenient(data: bytes, address: TaskAddress | None) -> tuple[str | None, str | None]:
    """Run id and ``reply_to`` of a task that was refused, as far as they can be believed."""
    try:
        raw = msgspec.json.decode(data, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None, None
    run_id, reply_to = raw.get("run_id"), raw.get("reply_to")
    is_ours = (
        address is not None
        and isinstance(reply_to, str)
        and may_reply_to(reply_to, address.tenant, address.principal)
    )
    return run_id if isinstance(run_id, str) else None, reply_to if is_ours else None


def code_of(error: TreadleError) -> str:
    """The stable word for an error: a conflict's own, else its class's."""
    return error.why if isinstance(error, Conflict) else error.code


def refusal_of(error: TreadleError, run_id: str | None) -> Refusal:
    """What the submitter is told."""
    return Refusal(run_id=run_id, code=code_of(error), message=error.message, hint=error.hint)


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """A task that became no run, or a run that was set aside, with the reason. Public JSON."""

    v: int = 1
    subject: str
    code: str
    message: str
    hint: str = ""
    payload: str
    encoding: str
    """text or base64."""
    payload_bytes: int
    is_cut: bool
    """Only the first 256 KiB are kept."""
    deliveries: int
    sequence: int
    at: str


def dead_letter(
    refusal: Refusal, *, subject: str, data: bytes, deliveries: int, sequence: int, at: Timestamp
) -> DeadLetter:
    """The letter for a refused task."""
    kept = data[:MAX_LETTER_BYTES]
    payload, encoding = _readable(kept)
    return DeadLetter(
        subject=subject,
        code=refusal.code,
        message=refusal.message,
        hint=refusal.hint,
        payload=payload,
        encoding=encoding,
        payload_bytes=len(data),
        is_cut=len(kept) < len(data),
        deliveries=deliveries,
        sequence=sequence,
        at=iso(at),
    )


def run_letter(*, subject: str, why: str, result: bytes, at: Timestamp) -> DeadLetter:
    """The letter for a run that was set aside: its result, since its task is durable with it."""
    return DeadLetter(
        subject=subject,
        code="POISON",
        message=why,
        hint="see what it does at its last step; submit its task anew under another run id",
        payload=result.decode(),
        encoding="text",
        payload_bytes=len(result),
        is_cut=False,
        deliveries=0,
        sequence=0,
        at=iso(at),
    )


def tenant_of(subject: str) -> str:
    """The tenant whose dead letter this is; ``_`` where the subject names none."""
    tokens = subject.split(".")
    try:
        return identifier("tenant", tokens[2])
    except (IndexError, TreadleError):
        return "_"


def _readable(data: bytes) -> tuple[str, str]:
    """Text where it is text and grows little as JSON, else base64."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return base64.b64encode(data).decode(), "base64"
    if len(msgspec.json.encode(text)) > len(data) * 4 // 3 + 64:
        return base64.b64encode(data).decode(), "base64"
    return text, "text"
