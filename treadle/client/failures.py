"""Refusals of the API as errors again, so that a caller catches what the gateway raised."""

from collections.abc import Iterator

from messages import errors
from messages.api import ErrorBody
from messages.errors import BusError, Conflict, RemoteFailure, TreadleError

CONFLICTS = frozenset(
    {
        "ALREADY_ANSWERED",
        "ALREADY_DECIDED",
        "CANCEL_PENDING",
        "CONFLICT",
        "CUT",
        "ENDED",
        "EXPIRED",
        "HASH_MISMATCH",
        "NOT_HELD",
        "NOT_UNKNOWN",
        "TOO_EARLY",
        "NOT_WAITING",
        "NO_TASK",
    }
)
"""A conflict says why it is one; its code on the wire is that word."""


def error_of(body: ErrorBody) -> TreadleError:
    """The error a refusal stands for; an unknown code becomes a RemoteFailure that carries it."""
    if body.code in CONFLICTS:
        return Conflict(body.message, why=body.code, hint=body.hint)
    cls = _BY_CODE.get(body.code)
    if cls is None:
        return RemoteFailure(body.code, body.message, hint=body.hint)
    error = cls.__new__(cls)
    # The class's own constructor builds a text from data that did not travel; the text did.
    TreadleError.__init__(error, body.message, hint=body.hint)
    return error


def _tree(cls: type[TreadleError]) -> Iterator[type[TreadleError]]:
    yield cls
    for sub in cls.__subclasses__():
        yield from _tree(sub)


_BY_CODE = {
    cls.code: cls
    for cls in _tree(TreadleError)
    # A bus error of the gateway's own asks says nothing about ours.
    if cls.__module__ == errors.__name__
    and (cls is errors.Busy or not issubclass(cls, (BusError, RemoteFailure, Conflict)))
}
