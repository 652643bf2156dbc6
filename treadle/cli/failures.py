"""How an error looks and which exit code it has.

====  =====================================================
0     done
1     refused or failed
2     usage
3     not found
4     not allowed
5     the awaited run ended other than SUCCEEDED
6     the awaited run now waits for a person
7     conflict: already decided, expired, hash differs
8     findings
69    daemon or NATS unreachable
124   timeout
130   interrupted
====  =====================================================

With ``-o json`` or ``-o jsonl`` an error is one object on stderr, ``{"v":1,"error":{"code",
"message","hint","retryable"}}``; otherwise ``error: message (CODE)`` and a line with the hint.
"""

import json
import sys
import traceback
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import click

from messages.errors import Conflict, RemoteFailure, TreadleError

DONE: Final = 0
FAILED: Final = 1
USAGE: Final = 2
ENDED_OTHERWISE: Final = 5
NEEDS_PERSON: Final = 6
FINDINGS: Final = 8
UNREACHABLE: Final = 69
TIMEOUT: Final = 124
INTERRUPTED: Final = 130

# Codes whose class leaves the meaning for a command line open.
_EXIT_BY_CODE: Final = {
    "NO_RESPONDERS": UNREACHABLE,
    "SILENT": UNREACHABLE,
    "DEADLINE": TIMEOUT,
}


class TimedOutError(TreadleError):
    """What was waited for did not happen within ``--timeout``."""

    code = "TIMEOUT"
    exit_code = TIMEOUT
    retryable = True


class InterruptedByUserError(TreadleError):
    """Ctrl-C, with words about what goes on without us."""

    code = "INTERRUPTED"
    exit_code = INTERRUPTED


class DeclinedError(TreadleError):
    """A person was asked and said no."""

    code = "DECLINED"

    def __init__(self) -> None:
        super().__init__("you said no, so nothing was done")


class Failure(NamedTuple):
    """An error as it is shown."""

    code: str
    message: str
    hint: str
    is_retryable: bool
    exit_code: int


def report(error: BaseException, arguments: Sequence[str]) -> int:
    """Print an error in the format the command line asked for; return its exit code."""
    failure = describe(error)
    if "-v" in arguments or "--verbose" in arguments:
        traceback.print_exception(error)
    if _wants_json(arguments):
        body = {
            "code": failure.code,
            "message": failure.message,
            "hint": failure.hint,
            "retryable": failure.is_retryable,
        }
        print(json.dumps({"v": 1, "error": body}), file=sys.stderr)
        return failure.exit_code
    print(f"error: {failure.message} ({failure.code})", file=sys.stderr)
    if failure.hint:
        print(f"hint: {failure.hint}", file=sys.stderr)
    return failure.exit_code


def describe(error: BaseException) -> Failure:
    """Code, words and exit code of any error."""
    match error:
        case BaseExceptionGroup() if (inner := _only_leaf(error)) is not None:
            return describe(inner)
        case RemoteFailure():
            code = error.remote_code
            return Failure(code, error.message, error.hint, *_by_remote_code(code, error))
        case TreadleError():
            code = error.why if isinstance(error, Conflict) else error.code
            exit_code = _EXIT_BY_CODE.get(code, error.exit_code)
            return Failure(code, error.message, error.hint, error.retryable, exit_code)
        case click.UsageError():
            path = error.ctx.command_path if error.ctx else "treadle"
            message = error.format_message().rstrip(".")
            return Failure("USAGE", message, f"{path} --help", is_retryable=False, exit_code=USAGE)
        case click.ClickException():
            return Failure("USAGE", error.format_message(), "", is_retryable=False, exit_code=USAGE)
        case KeyboardInterrupt() | click.Abort():
            text = "interrupted; runs that were submitted go on"
            return Failure("INTERRUPTED", text, "", is_retryable=False, exit_code=INTERRUPTED)
        case OSError():
            text = str(error)
            return Failure("IO", text, "", is_retryable=False, exit_code=FAILED)
        case _:
            return _unexpected(error)


def _unexpected(error: BaseException) -> Failure:
    words = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    hint = "this is a defect of Treadle; -v shows where it happened"
    return Failure("INTERNAL", words, hint, is_retryable=False, exit_code=FAILED)


def _only_leaf(group: BaseExceptionGroup[BaseException]) -> BaseException | None:
    """The one error inside nested groups; None where there are several different ones."""
    leaves = list(_leaves(group))
    return leaves[0] if len({(type(leaf), str(leaf)) for leaf in leaves}) == 1 else None


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error


def _by_remote_code(code: str, error: RemoteFailure) -> tuple[bool, int]:
    """Whether trying again can help, and the exit code, of the class that has this code."""
    for kind in _tree(TreadleError):
        if kind.code == code:
            return kind.retryable, _EXIT_BY_CODE.get(code, kind.exit_code)
    return error.retryable, error.exit_code


def _tree(kind: type[TreadleError]) -> Iterator[type[TreadleError]]:
    for sub in kind.__subclasses__():
        yield sub
        yield from _tree(sub)


def _wants_json(arguments: Sequence[str]) -> bool:
    """Read off the raw arguments, since what failed may be their parsing; the last one counts."""
    wanted = ""
    for position, argument in enumerate(arguments):
        if argument in {"-o", "--output"}:
            wanted = arguments[position + 1] if position + 1 < len(arguments) else ""
        elif argument.startswith("--output="):
            wanted = argument.removeprefix("--output=")
        elif argument.startswith("-o"):
            wanted = argument.removeprefix("-o")
    return wanted.removeprefix("=") in {"json", "jsonl"}
