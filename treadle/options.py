"""What ``treadle up`` was told, and what that loads: app, settings, policy."""

import os
from dataclasses import dataclass
from importlib.metadata import packages_distributions
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from messages.errors import ConfigError, DeclarationError
from messages.subjects import ROLES
from runtime import config, secrets
from runtime.agent import App
from runtime.http.server import address_of
from runtime.log import Level, Line, log
from runtime.settings import Policy, Settings
from treadle.cli import loading
from treadle.cli.findings import Finding


@dataclass(frozen=True, kw_only=True)
class DaemonOptions:
    """What ``up`` was told.

    Attributes:
        app: MODULE:APP.
        model: Instead of the agents' own.
        data_dir: Where everything lies; of a joined process, where its join file lies.
        config: treadle.toml; None: the one in the working directory, if any.
        nats: URL of an external server; None: embedded.
        roles: What this process serves, in the order of ``ROLES``.
        tools: The tools that its executors serve; None: all.
        join: The join file of the daemon it serves for; None: it is the daemon itself.
        http: HOST:PORT of the HTTP door, on loopback; None: as configured.
        paused: Start with a hold on everything.
    """

    app: str
    model: str | None = None
    data_dir: Path = Path(".treadle")
    config: Path | None = None
    nats: str | None = None
    roles: tuple[str, ...] = ROLES
    tools: tuple[str, ...] | None = None
    join: Path | None = None
    http: str | None = None
    paused: bool = False

    @property
    def shown_roles(self) -> str:
        """For the log."""
        return "all" if self.roles == ROLES else ",".join(self.roles)


class Loaded(NamedTuple):
    """What the options name."""

    app: App
    settings: Settings
    policy: Policy


def options_of(  # noqa: PLR0913 -- one argument per option of the command
    *,
    app: str,
    model: str | None,
    data_dir: Path,
    config_file: Path | None,
    nats: str | None,
    roles: str | None,
    tools: str | None,
    join: Path | None,
    http: str | None,
    paused: bool,
) -> DaemonOptions:
    """The options of ``up``, checked together.

    Raises:
        ConfigError: A role that does not exist, tools without the executor, or a hold by a process
            that does not serve the ledger.
    """
    served = _names("--roles", roles, ROLES) or ROLES
    named_tools = tuple(tools.split(",")) if tools else None
    if named_tools is not None and "executor" not in served:
        raise ConfigError("--tools", "is for executors, and --roles names none")
    if paused and "checkpointer" not in served:
        raise ConfigError("--paused", "needs the checkpointer, which --roles does not name")
    if http is not None:
        _ = address_of(http, "--http")
    return DaemonOptions(
        app=app,
        model=model,
        data_dir=(join.parent if join else data_dir).absolute(),
        config=config_file,
        nats=nats,
        roles=served,
        tools=named_tools,
        join=join,
        http=http,
        paused=paused,
    )


def _names(option: str, text: str | None, known: tuple[str, ...]) -> tuple[str, ...]:
    wanted = [name.strip() for name in text.split(",")] if text else []
    for name in wanted:
        if name not in known:
            raise ConfigError(option, f"there is no {name!r}; there are: {', '.join(known)}")
    return tuple(name for name in known if name in wanted)


def load(options: DaemonOptions) -> Loaded:
    """Import the app and read its configuration. Blocks on the disk.

    Raises:
        DeclarationError: The app does not load.
        ConfigError: Settings or policy are wrong, or an executor is to serve an unknown tool.
    """
    secrets.remember(*secrets.in_environment(os.environ))
    for name, owners in shared_names().items():
        log(Line.CONFIG_WARNING, Level.WARNING, package=name, owners=", ".join(owners))
    app, folder = _app(options.app)
    for tool in options.tools or ():
        if tool not in app.tools:
            raise ConfigError("--tools", f"the app has no {tool!r}; it has: {', '.join(app.tools)}")
    here = Path.cwd()
    files = config.settings_files(user=options.config, here=here, app_dir=folder)
    policies = config.settings_files(user=None, here=here, app_dir=folder, name=config.POLICY_FILE)
    flags = [config.Flag("--http", "http.listen", options.http)]
    loaded = config.load(files, flags=flags)
    if listen := loaded.settings.http.listen:
        _ = address_of(listen, loaded.place("http.listen"))
    return Loaded(app, loaded.settings, config.load_policy(policies))


def shared_names() -> dict[str, list[str]]:
    """Our top-level packages that another distribution ships too: one overwrites the other."""
    owners = packages_distributions()
    ours = ("messages", "runtime", "actors", "treadle")
    return {name: owners[name] for name in ours if len(set(owners.get(name, ()))) > 1}


def _app(spec: str) -> tuple[App, Path | None]:
    module_name, name = loading.split(spec)
    module = loading.find_module(module_name)
    if not isinstance(module, ModuleType):
        raise _broken(module)
    app = loading.find_app(module, name)
    if not isinstance(app, App):
        raise _broken(app)
    return app, loading.folder_of(module)


def _broken(finding: Finding) -> DeclarationError:
    return DeclarationError(f"{finding.where}: {finding.message}", hint=finding.hint)
