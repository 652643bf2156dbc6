"""Errors as messages: what a handler raised, told to the asker so that it can act on it."""

from messages import errors
from messages.base import Failure
from messages.errors import BusError, RemoteFailure, TreadleError

INTERNAL = "INTERNAL"
"""Code of whatever a handler did not raise on purpose."""
STOPPED = "STOPPED"
"""Code of a handler that was cut off while its server stopped; it may have done its work."""

_NESTED = "HANDLER_"
"""Prefix of a bus error that a handler met itself: to its asker it is not the same thing. Busy, for
one, tells an asker that nothing was started."""

_SAME_HERE: dict[str, type[TreadleError]] = {
    cls.code: cls
    for cls in (
        errors.UsageError,
        errors.DeclarationError,
        errors.BadTask,
        errors.NotFound,
        errors.NotAllowed,
        errors.Conflict,
        errors.WireError,
        errors.UnknownMessage,
        errors.TooLarge,
        errors.Busy,
        errors.StorageError,
        errors.BrokenChain,
        errors.BadGrant,
    )
}


def to_failure(error: Exception) -> Failure:
    """The reply for what a handler raised; of a foreign error only the type's name leaves."""
    if isinstance(error, TreadleError):
        code = _NESTED + error.code if isinstance(error, BusError) else error.code
        if isinstance(error, RemoteFailure):
            code = error.remote_code
        return Failure(code=code, message=error.message, hint=error.hint, retryable=error.retryable)
    return Failure(code=INTERNAL, message=f"the handler failed with {type(error).__name__}")


def to_error(failure: Failure, subject: str) -> TreadleError:
    """The error an asker sees for a failure.

    Args:
        failure: what came back.
        subject: where the request went, for the text.
    """
    cls = _SAME_HERE.get(failure.code)
    if cls is None:
        return RemoteFailure(failure.code, f"{subject}: {failure.message}", hint=failure.hint)
    error = cls.__new__(cls)
    # The class's own constructor builds a text from data that did not travel; the text did.
    TreadleError.__init__(error, failure.message, hint=failure.hint)
    if isinstance(error, errors.Conflict):
        error.why = failure.code
    return error
