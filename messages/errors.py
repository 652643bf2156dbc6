"""The whole error tree, in the lowest layer so that everything may raise it.

::

    TreadleError                     code, message, hint, retryable
    ├── UsageError                   the caller's input or declaration is wrong          (exit 2)
    │   ├── DeclarationError         a tool, agent or app is declared wrongly
    │   ├── ConfigError              treadle.toml, policy.toml, environment or flags
    │   ├── BadIdentifier            an id does not match [A-Za-z0-9_-]{1,64}
    │   └── BadTask                  a task that is malformed, too large or not allowed
    ├── NotFound                     no such run, approval, key, agent                   (exit 3)
    ├── NotAllowed                   the sender may not do that                          (exit 4)
    ├── Conflict                     already decided, expired, hash differs, wrong state (exit 7)
    ├── WireError                    bytes that are no message of ours
    │   ├── UnknownMessage           a tag or version this code does not know
    │   └── TooLarge                 payload above the broker's limit
    ├── BusError
    │   ├── NoResponders             nobody serves that role or tool now
    │   ├── Busy                     the role's queue is full
    │   ├── Silent                   the worker stopped sending heartbeats
    │   ├── DeadlineExceeded         no reply in time
    │   └── Unreachable              no connection to NATS                               (exit 69)
    ├── StorageError                 the ledger's disk or database failed
    │   └── BrokenChain              a journal entry does not hash to what was recorded  (exit 8)
    ├── ServerError                  the embedded nats-server: missing, too old, will not start
    ├── AlreadyRunning               another daemon holds the data directory
    ├── SupervisorGaveUp             an actor kept crashing
    ├── BadGrant                     a grant that is absent, forged, expired or for something else
    ├── IllegalTransition            a status change that the table does not allow
    ├── ModelError                   the provider failed, see reason
    └── RemoteFailure                a peer answered with a failure it wrapped itself

    ToolError                        raised by a tool; see treadle's public names
    ├── Transient                    nothing happened, trying again may help
    ├── Correctable                  nothing happened, other arguments may help
    ├── Unrecoverable                nothing happened, nothing will help
    └── Unknown                      it may have happened

Constructors take data and build the text. Each class has a stable ``code``. No message may hold a
secret: arguments are names, ids, paths and sizes, never passwords, tokens or payloads. A foreign
error is wrapped once, ``from`` the original.
"""

from typing import ClassVar


class TreadleError(Exception):
    """Base of every error Treadle raises on purpose."""

    code: ClassVar[str] = "ERROR"
    exit_code: ClassVar[int] = 1
    retryable: ClassVar[bool] = False

    def __init__(self, message: str, *, hint: str = "") -> None:
        """Keep the text a stranger can act on and, apart, what to try next."""
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(TreadleError):
    """The caller's input or declaration is wrong."""

    code = "USAGE"
    exit_code = 2


class DeclarationError(UsageError):
    """A tool, agent or app is declared wrongly; the message says what to write instead."""

    code = "DECLARATION"


class ConfigError(UsageError):
    """Configuration is wrong; names the place and, for an unknown key, the nearest known one."""

    code = "CONFIG"

    def __init__(self, where: str, problem: str, *, nearest: str = "") -> None:
        """Args: where: file and key, or variable; problem: what is wrong; nearest: a known key."""
        hint = f"did you mean {nearest!r}?" if nearest else ""
        super().__init__(f"{where}: {problem}", hint=hint)
        self.where = where


class BadIdentifier(UsageError):
    """An identifier that could not be a subject token or a ledger key."""

    code = "BAD_IDENTIFIER"

    def __init__(self, kind: str, value: str) -> None:
        """Args: kind: run, tenant, principal, agent, tool, group; value: what was given."""
        super().__init__(
            f"{kind} {value[:80]!r} is not an identifier",
            hint="use 1 to 64 of the characters A-Z a-z 0-9 _ -",
        )


class BadTask(UsageError):
    """A task that is malformed, too large, or asks for something a task may not ask for."""

    code = "BAD_TASK"


class NotFound(TreadleError):
    """There is no such thing."""

    code = "NOT_FOUND"
    exit_code = 3

    def __init__(self, kind: str, name: str, *, hint: str = "") -> None:
        """Args: kind: run, approval, key, agent …; name: what was asked for."""
        super().__init__(f"no {kind} {name[:200]!r}", hint=hint)


class NotAllowed(TreadleError):
    """The sender may not do that."""

    code = "NOT_ALLOWED"
    exit_code = 4


class Conflict(TreadleError):
    """The thing is not in the state the request assumes."""

    code = "CONFLICT"
    exit_code = 7

    def __init__(self, message: str, *, why: str = "CONFLICT", hint: str = "") -> None:
        """Args: why: ALREADY_DECIDED, EXPIRED, HASH_MISMATCH, ALREADY_ANSWERED, ENDED, …."""
        super().__init__(message, hint=hint)
        self.why = why


class WireError(TreadleError):
    """Bytes that are no message of ours."""

    code = "WIRE"


class UnknownMessage(WireError):
    """A tag, or a schema version of a tag, that this code does not know."""

    code = "UNKNOWN_MESSAGE"


class TooLarge(WireError):
    """A payload (headers included) above the broker's limit."""

    code = "TOO_LARGE"

    def __init__(self, what: str, size: int, limit: int) -> None:
        """Args: what: which message; size, limit: bytes."""
        super().__init__(f"{what} is {size} bytes, the limit is {limit}")


class BusError(TreadleError):
    """The bus did not carry the request to an answer."""

    code = "BUS"
    retryable = True


class NoResponders(BusError):
    """Nobody serves that role or tool now."""

    code = "NO_RESPONDERS"


class Busy(BusError):
    """The role is there, but its queue is full."""

    code = "BUSY"


class Silent(BusError):
    """The worker stopped sending heartbeats; it may be dead or cut off."""

    code = "SILENT"


class DeadlineExceeded(BusError):
    """No reply in time; the request may still be executed."""

    code = "DEADLINE"


class Unreachable(BusError):
    """There is no connection to NATS."""

    code = "UNREACHABLE"
    exit_code = 69


class StorageError(TreadleError):
    """The ledger's disk or database failed; nothing was acknowledged."""

    code = "STORAGE"
    retryable = True


class BrokenChain(StorageError):
    """A journal entry is missing, changed or out of order."""

    code = "BROKEN_CHAIN"
    exit_code = 8
    retryable = False


class ServerError(TreadleError):
    """The embedded nats-server is missing, too old, or will not start."""

    code = "NATS_SERVER"


class AlreadyRunning(TreadleError):
    """Another process holds the lock of this data directory."""

    code = "ALREADY_RUNNING"

    def __init__(self, what: str, path: str, pid: int | None) -> None:
        """Args: what: broker or ledger; path: the lock file; pid: its holder where known."""
        holder = f" (pid {pid})" if pid else ""
        super().__init__(
            f"another process{holder} holds the {what} of this data directory: {path}",
            hint="stop it, use --data-dir for a second one, or join it with --join",
        )


class SupervisorGaveUp(TreadleError):
    """An actor crashed more often than its restart budget allows."""

    code = "SUPERVISOR"


class BadGrant(TreadleError):
    """A grant that is absent, forged, expired, or for something else. Nothing was started."""

    code = "BAD_GRANT"
    exit_code = 4


class IllegalTransition(TreadleError):
    """A status change that the table in ``runtime.loop.transitions`` does not allow."""

    code = "ILLEGAL_TRANSITION"

    def __init__(self, run_id: str, old: str, new: str) -> None:
        """Args: run_id: the run; old, new: statuses."""
        super().__init__(f"run {run_id}: {old} may not become {new}")


class ModelError(TreadleError):
    """The provider failed. ``reason`` is one of runtime.model.port's failure reasons."""

    code = "MODEL"

    def __init__(
        self,
        reason: str,
        message: str,
        *,
        request_id: str = "",
        retry_after_s: float | None = None,
        is_free: bool = False,
    ) -> None:
        """Say how the attempt failed.

        Args:
            reason: short stable word.
            message: text without secrets.
            request_id: the provider's, where it gave one.
            retry_after_s: how long the provider asks to be left alone.
            is_free: it certainly inferred nothing, so there is nothing to pay for.
        """
        super().__init__(message)
        self.reason = reason
        self.request_id = request_id
        self.retry_after_s = retry_after_s
        self.is_free = is_free


class RemoteFailure(TreadleError):
    """A peer answered with a failure; ``remote_code`` is the code it gave."""

    code = "REMOTE"

    def __init__(self, remote_code: str, message: str, *, hint: str = "") -> None:
        """Args: remote_code: the peer's code; message, hint: the peer's words."""
        super().__init__(message, hint=hint)
        self.remote_code = remote_code


class ToolError(Exception):
    """What a tool raises to say how its failure must be treated."""

    code: ClassVar[str] = "TOOL"

    def __init__(self, message: str = "", *, hint: str = "") -> None:
        """Args: message: for the model and the record; hint: how to correct the call."""
        super().__init__(message or type(self).__name__)
        self.message = message or type(self).__name__
        self.hint = hint


class Transient(ToolError):
    """Nothing happened; trying again later may help."""

    code = "TRANSIENT"


class Correctable(ToolError):
    """Nothing happened; other arguments may help."""

    code = "CORRECTABLE"


class Unrecoverable(ToolError):
    """Nothing happened and nothing will help."""

    code = "UNRECOVERABLE"


class Unknown(ToolError):
    """It may have happened; from a lookup: it cannot be decided."""

    code = "UNKNOWN"
