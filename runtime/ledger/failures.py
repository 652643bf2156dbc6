"""An operation that could not be carried out, as the answer it gets."""

from messages.base import Failure
from messages.errors import StorageError, TreadleError
from messages.ledger import AnyLedgerRequest
from runtime.log import Level, Line, describe, log


def as_failure(op: AnyLedgerRequest, error: Exception) -> Failure:
    """The answer to ``op``, logged: a failure that is not the disk's is a bug or a corrupt row."""
    log(Line.LEDGER_FAILED, Level.ERROR, operation=op.verb, **describe(error))
    if isinstance(error, TreadleError):
        return Failure(
            code=error.code, message=error.message, hint=error.hint, retryable=error.retryable
        )
    # The text of a foreign error may quote a payload, so only its type is passed on.
    kind = type(error).__name__
    return Failure(code=StorageError.code, message=f"{op.verb} could not be carried out: {kind}")
