"""What user code is given: ``Ctx`` (tools, preconditions, lookups) and ``Request`` (rules)."""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from messages.errors import ConfigError
from messages.parts import JsonValue

DepsT_co = TypeVar("DepsT_co", covariant=True)


@dataclass(frozen=True)
class Ctx(Generic[DepsT_co]):
    """What a tool, a precondition or a lookup is given.

    Attributes:
        deps: What the app's ``deps=`` opened in this executor.
        idempotency_key: Key of the write, for the downstream's own duplicate check; empty in a
            read. The same on every repetition of the same effect.
        run_id: The run that acts.
        tenant: Whose run it is.
        principal: Who asked for the run.
    """

    deps: DepsT_co
    idempotency_key: str = ""
    run_id: str = ""
    tenant: str = ""
    principal: str = ""


class Limit(Protocol):
    """One value of policy.toml."""

    @property
    def value(self) -> JsonValue:
        """The value."""
        ...

    @property
    def source(self) -> str:
        """The document it comes from, such as ``POL-REF-004 v4 3.2``."""
        ...


class Policy(Protocol):
    """policy.toml as rules see it."""

    @property
    def limits(self) -> Mapping[str, Limit]:
        """Limits by dotted name, such as ``refund.auto_inr``."""
        ...

    @property
    def version(self) -> str:
        """Changes whenever any limit changes; part of what is signed and recorded."""
        ...


@dataclass(frozen=True)
class Request:
    """What a rule is given: who asks, with which rights, and the limits of policy.toml.

    Attributes:
        now: The ledger's clock, in epoch seconds.
        read: Names of the limits that were read so far, in order.
    """

    policy: Policy
    tenant: str = ""
    principal: str = ""
    scopes: tuple[str, ...] = ()
    now: float = 0.0
    read: list[str] = field(default_factory=list[str])

    def limit(self, name: str) -> int:
        """A whole number of policy.toml, noted as read so that an approver is shown its source.

        Raises:
            ConfigError: There is no such limit, or it is no whole number.
        """
        value = self.setting(name)
        if type(value) is not int:
            where = f"policy.toml, limit {name!r}"
            problem = (
                f"is {type(value).__name__}, req.limit() reads whole numbers: write the amount "
                "as an integer in a small unit, or read it with req.setting()"
            )
            raise ConfigError(where, problem)
        return value

    def setting(self, name: str) -> JsonValue:
        """A value of policy.toml of any type, noted as read.

        Raises:
            ConfigError: There is no such limit.
        """
        limit = self.policy.limits.get(name)
        if limit is None:
            nearest = difflib.get_close_matches(name, self.policy.limits, n=1)
            raise ConfigError(
                f"policy.toml, limit {name!r}",
                "is not set, and a rule reads it",
                nearest=nearest[0] if nearest else "",
            )
        if name not in self.read:
            self.read.append(name)
        return limit.value
