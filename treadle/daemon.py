"""The daemon: settings -> server, ledger, roles. The composition root of ``treadle up``."""

import os
import sys
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from importlib.metadata import packages_distributions
from pathlib import Path
from types import ModuleType

import anyio
import anyio.to_thread
import msgspec

from messages.errors import DeclarationError, ServerError
from messages.ledger import Hold, HoldRow
from runtime import config
from runtime.agent import App
from runtime.bus import client
from runtime.bus.bus import WireBus
from runtime.bus.permissions import Credentials
from runtime.bus.server import EmbeddedServer
from runtime.bus.wire import Pace
from runtime.clock import MachineClock, MachineIds, machine_chance
from runtime.ledger.sqlite import SqliteLedger
from runtime.log import Level, Line, log, set_up
from runtime.policy.grants import load_signer
from runtime.settings import Policy, Settings
from runtime.supervisor import ChildSpec, Supervisor, leave_at_once
from treadle.assembly import Parts, Roles, assemble
from treadle.cli import loading
from treadle.cli.findings import Finding
from treadle.models import models_of

CONNECTION_FILE = "connection.json"
LEDGER_FILE = "ledger.db"
DATA_DIR_VARIABLE = "TREADLE_DATA_DIR"
PEOPLE = ("submitter", "approver", "operator")
READY_S = 20.0


@dataclass(frozen=True, kw_only=True)
class DaemonOptions:
    """What ``up`` was told.

    Attributes:
        app: MODULE:APP.
        model: Instead of the agents' own.
        data_dir: Where everything lies.
        config: treadle.toml; None: the one in the working directory, if any.
        nats: URL of an external server; None: embedded.
        paused: Start with a hold on everything.
    """

    app: str
    model: str | None = None
    data_dir: Path = Path(".treadle")
    config: Path | None = None
    nats: str | None = None
    paused: bool = False


async def run_daemon(options: DaemonOptions) -> int:
    """Run every role until SIGTERM or SIGINT, then drain.

    Returns:
        0 after an orderly stop.

    Raises:
        TreadleError: it cannot start, or an actor kept crashing; the code says why.
    """
    clock = MachineClock()
    set_up(clock)
    log(Line.STARTING, app=options.app, data_dir=str(options.data_dir))
    if options.nats is not None:
        raise ServerError(
            "an external NATS server is not supported yet",
            hint="leave out --nats: the daemon brings its own",
        )
    data_dir = options.data_dir.absolute()
    app, folder = await anyio.to_thread.run_sync(_load, options.app)
    settings, policy = await anyio.to_thread.run_sync(_configure, options, folder)
    for name, owners in (await anyio.to_thread.run_sync(shared_names)).items():
        log(Line.CONFIG_WARNING, Level.WARNING, package=name, owners=", ".join(owners))
    agents, models = await anyio.to_thread.run_sync(models_of, app, settings, options.model)
    await anyio.to_thread.run_sync(partial(_make, data_dir))
    os.environ[DATA_DIR_VARIABLE] = str(data_dir)
    async with AsyncExitStack() as stack:
        # the ledger first: whoever holds its lock is the daemon of this directory
        ledger = await SqliteLedger.open(data_dir / LEDGER_FILE, clock.now)
        stack.push_async_callback(ledger.close)
        server = await stack.enter_async_context(
            EmbeddedServer(data_dir, binary=settings.nats.server_binary, port=settings.nats.port)
        )
        bus = await stack.enter_async_context(_connected(server, settings))
        await bus.prepare_streams(sorted(agents))
        if options.paused:
            _ = await ledger.apply([Hold(hold=HoldRow(reason="started with --paused"))])
        ids = MachineIds()
        roles = assemble(
            Parts(
                bus=bus,
                ledger=ledger,
                app=app,
                agents=agents,
                models=models,
                settings=settings,
                policy=policy,
                signer=await anyio.to_thread.run_sync(load_signer, data_dir),
                clock=clock,
                ids=ids,
                chance=machine_chance,
                process=ids.new_id("proc"),
            )
        )
        await _serve(roles, server, settings, data_dir)
    log(Line.STOPPED)
    return 0


# ------------------------------------------------------------------ before anything runs
def shared_names() -> dict[str, list[str]]:
    """Our top-level packages that another distribution ships too: one overwrites the other."""
    owners = packages_distributions()
    ours = ("messages", "runtime", "actors", "treadle")
    return {name: owners[name] for name in ours if len(set(owners.get(name, ()))) > 1}


def _load(spec: str) -> tuple[App, Path | None]:
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


def _configure(options: DaemonOptions, folder: Path | None) -> tuple[Settings, Policy]:
    here = Path.cwd()
    files = config.settings_files(user=options.config, here=here, app_dir=folder)
    policies = config.settings_files(user=None, here=here, app_dir=folder, name=config.POLICY_FILE)
    return config.load(files).settings, config.load_policy(policies)


def _make(data_dir: Path) -> None:
    data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)


@asynccontextmanager
async def _connected(server: EmbeddedServer, settings: Settings) -> AsyncGenerator[WireBus]:
    times = settings.runtime
    pace = Pace(heartbeat_s=times.heartbeat_s, silence_s=times.silence_s, skew_s=times.skew_s)
    async with client.connect(
        server.url, server.users["daemon"], name="treadle-daemon", pace=pace
    ) as bus:
        yield bus


# ------------------------------------------------------------------ while it runs
async def _serve(roles: Roles, server: EmbeddedServer, settings: Settings, data_dir: Path) -> None:
    def leave(signum: int) -> None:
        server.kill()
        leave_at_once(signum)

    supervisor = Supervisor(
        clock=MachineClock(),
        chance=machine_chance,
        grace_s=settings.runtime.grace_s,
        leave=leave,
    )
    place = data_dir / CONNECTION_FILE
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_announce, roles, server, place)
        try:
            _ = await supervisor.run([*roles.specs, _server_spec(server)])
        finally:
            place.unlink(missing_ok=True)
            tasks.cancel_scope.cancel()


def _server_spec(server: EmbeddedServer) -> ChildSpec:
    async def run() -> None:
        try:
            await server.watch()
        except ServerError:
            await server.restart()
            raise
        await anyio.sleep_forever()

    return ChildSpec(name="nats-server", run=run)


async def _announce(roles: Roles, server: EmbeddedServer, place: Path) -> None:
    """Say where we are once every role can be asked."""
    with anyio.move_on_after(READY_S) as limit:
        await roles.ready()
    if limit.cancelled_caught:
        raise ServerError(f"not every role was ready within {READY_S:g} s")
    users = {name: _user(server.users[name]) for name in PEOPLE}
    record = {
        "v": 1,
        "url": server.url,
        "http": None,
        "pid": os.getpid(),
        "started_at": MachineClock().now(),
        "tenant": "default",
        "users": users,
    }
    await anyio.to_thread.run_sync(_write_private, place, msgspec.json.encode(record))
    log(Line.READY, url=server.url)
    print(f"ready {server.url} {place}", file=sys.stderr, flush=True)  # noqa: T201 - for people


def _user(credentials: Credentials) -> dict[str, str]:
    return {
        "user": credentials.user,
        "password": credentials.password,
        "inbox_prefix": credentials.inbox_prefix,
    }


def _write_private(path: Path, data: bytes) -> None:
    """Whole or not at all, and readable by nobody else."""
    draft = path.with_suffix(".new")
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        _ = file.write(data)
    _ = draft.replace(path)
