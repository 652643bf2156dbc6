"""What can be configured, as data: sections of treadle.toml, and the limits of policy.toml.

``runtime.config`` reads them; everybody else gets the finished structs. Durations end in ``_s``,
money is a decimal string of dollars, and an empty string means that nothing was said.
"""

from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

Name = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
Usd = Annotated[str, Meta(pattern=r"^\d{1,9}(\.\d{1,6})?$")]
PositiveInt = Annotated[int, Meta(gt=0)]
PositiveSeconds = Annotated[float, Meta(gt=0)]
Port = Annotated[int, Meta(ge=0, le=65535)]


class _Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of treadle.toml; tables that nobody wrote equal their defaults."""


class Budgets(_Section, frozen=True, kw_only=True):
    """Limits of a run; they lower what the agent says and never raise it."""

    max_steps: PositiveInt | None = None
    max_tokens: PositiveInt | None = None
    max_usd: Usd | None = None
    max_seconds: PositiveSeconds | None = None


class Person(_Section, frozen=True, kw_only=True):
    """Somebody who may be asked."""

    tenant: Name = "default"
    contact: str = ""
    """Where a notification reaches them; passed to the notifier as it is."""


class Group(_Section, frozen=True, kw_only=True):
    """People of whom any one may approve."""

    members: tuple[Name, ...] = ()
    max_size: Annotated[int, Meta(ge=0)] | None = None
    """The largest size, in the unit of the rule that asks, which the group may approve."""


class Principal(_Section, frozen=True, kw_only=True):
    """A system or person that submits tasks."""

    scopes: tuple[str, ...] | None = None
    """Not set: every scope of the tenant."""


class Tenant(_Section, frozen=True, kw_only=True):
    """Who may submit, what their runs may touch and spend."""

    principals: dict[str, Principal] = {}
    scopes: tuple[str, ...] = ()
    budgets: Budgets = Budgets()


class Rates(_Section, frozen=True, kw_only=True):
    """Dollars per million tokens, instead of the dated price list."""

    input_usd_per_mtok: Usd | None = None
    output_usd_per_mtok: Usd | None = None
    cache_read_usd_per_mtok: Usd | None = None
    """Not set: as any other input; so are writes."""
    cache_write_usd_per_mtok: Usd | None = None
    """For five minutes."""
    cache_write_1h_usd_per_mtok: Usd | None = None


class LongPrompt(Rates, frozen=True, kw_only=True):
    """What a request costs, its answer included, whose prompt is longer."""

    above_tokens: Annotated[int, Meta(ge=0)] = 0
    """0: every prompt costs the same."""


class Model(Rates, frozen=True, kw_only=True):
    """One named model."""

    provider: Literal["anthropic", "scripted"] = "anthropic"
    id: str = ""
    """The provider's name of it; empty: the table's own name."""
    base_url: str = ""
    api_key_env: str = "ANTHROPIC_API_KEY"
    """Name of the secret (a variable, its ``_FILE``, a credential); never the secret itself."""
    timeout_s: PositiveSeconds = 300.0
    """From sending to the last event."""
    idle_s: PositiveSeconds = 60.0
    """A provider that says nothing for so long, not even that it is still there, has failed."""
    max_concurrent: PositiveInt = 8
    long_prompt: LongPrompt = LongPrompt()


class Notify(_Section, frozen=True, kw_only=True):
    """How people hear of approvals and questions."""

    log: bool = True
    webhook: str = ""
    webhook_secret_env: str = ""
    """Name of the secret that signs the webhook; empty: unsigned."""
    command: tuple[str, ...] = ()
    """Program and arguments; gets the event as JSON on stdin. Never run through a shell."""
    timeout_s: PositiveSeconds = 10.0


class Nats(_Section, frozen=True, kw_only=True):
    """The bus."""

    url: str = ""
    """Empty: an embedded server."""
    server_binary: str = ""
    """Path of nats-server; empty: the one on PATH if it is new enough, else Treadle's own."""
    port: Port = 0
    """Of the embedded server; 0: a free one, kept over restarts."""


class Store(_Section, frozen=True, kw_only=True):
    """The ledger."""

    url: str = ""
    """Empty: SQLite in the data directory, which is all there is in this version."""


class Http(_Section, frozen=True, kw_only=True):
    """Console and API."""

    listen: Annotated[str, Meta(pattern=r"^$|^.+:\d{1,5}$")] = ""
    """HOST:PORT; empty: none."""
    public_url: str = ""
    """What notifications link to; not used in this version."""


class Runtime(_Section, frozen=True, kw_only=True):
    """Times and sizes of the machinery; the defaults are the ones that were tested."""

    lease_s: PositiveSeconds = 5.0
    """A process that has not renewed for so long has lost its runs."""
    heartbeat_s: PositiveSeconds = 1.0
    """How often a handler says that it is still working."""
    silence_s: PositiveSeconds = 3.0
    """An asker that heard nothing for so long counts the handler as dead."""
    grace_s: Annotated[float, Meta(ge=0)] = 25.0
    """How long calls in flight may take once the process drains."""
    poison_deaths: PositiveInt = 3
    """A run whose owners died so often without progress is set aside."""
    slots: PositiveInt = 64
    """Runs that one orchestrator drives at a time."""
    due_s: PositiveSeconds = 1.0
    """How often an orchestrator with free slots asks for runs."""
    grant_s: PositiveSeconds = 20.0
    """How long a grant is valid."""
    skew_s: Annotated[float, Meta(ge=0)] = 1.0
    """How far the clocks of two processes may differ."""


class Settings(_Section, frozen=True, kw_only=True):
    """All of treadle.toml."""

    people: dict[str, Person] = {}
    groups: dict[str, Group] = {}
    tenants: dict[str, Tenant] = {}
    budgets: Budgets = Budgets()
    models: dict[str, Model] = {}
    notify: Notify = Notify()
    nats: Nats = Nats()
    store: Store = Store()
    http: Http = Http()
    runtime: Runtime = Runtime()

    @property
    def known_groups(self) -> Mapping[str, Group] | None:
        """Who may approve what; None where nothing is said of anybody, so that anybody may."""
        is_said = self.groups or self.people or self.tenants
        return self.groups if is_said else None


class Limit(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A threshold that rules read, with the document that sets it."""

    value: int | str | bool
    source: Annotated[str, Meta(min_length=1)]
    """Document, version and section, as in ``POL-REF-004 v4 3.2``."""


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """The limits in force."""

    version: str
    """First 12 hex digits of the SHA-256 of all limits; part of what an approval shows."""
    limits: dict[str, Limit] = {}
