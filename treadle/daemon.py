"""The daemon: settings -> broker, ledger, roles. The composition root of ``treadle up``.

One process serves every role unless told otherwise. With ``--roles`` it serves some; with
``--join FILE`` it serves them for the daemon that wrote FILE, and then starts no broker. Whoever
serves the checkpointer opens the ledger, whoever serves the authoriser reads the signing key.
"""

import os
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread

from messages.errors import ServerError
from messages.ledger import Hold, HoldRow, Renew
from messages.subjects import ROLES
from runtime import heap
from runtime.bus import client
from runtime.bus.bus import WireBus
from runtime.bus.permissions import DAEMON, Credentials
from runtime.bus.wire import Pace
from runtime.calls import with_calls
from runtime.clock import MachineClock, MachineIds, machine_chance
from runtime.http.health import Health
from runtime.ledger.sqlite import SqliteLedger
from runtime.log import Line, log, set_up
from runtime.policy.grants import Signer, load_signer
from runtime.settings import Settings
from runtime.supervisor import ChildSpec, Supervisor, leave_at_once
from treadle.assembly import Parts, Roles, assemble
from treadle.broker import Broker, Joined, Own, open_broker
from treadle.faults import arm_from
from treadle.health import health_of
from treadle.join import CONNECTION_FILE, write_connection, write_join
from treadle.models import models_of
from treadle.options import DaemonOptions, Loaded, load

__all__ = ["DaemonOptions", "run_daemon"]

LEDGER_FILE = "ledger.db"
DATA_DIR_VARIABLE = "TREADLE_DATA_DIR"
READY_S = 20.0
JOIN_S = 30.0
"""How long a joined process waits for a broker that is not there yet."""


async def run_daemon(options: DaemonOptions) -> int:
    """Run the roles until SIGTERM or SIGINT, then drain.

    Returns:
        0 after an orderly stop.

    Raises:
        TreadleError: it cannot start, or an actor kept crashing; the code says why.
    """
    set_up(MachineClock())
    arm_from(os.environ, MachineClock())
    log(Line.STARTING, app=options.app, data_dir=str(options.data_dir), roles=options.shown_roles)
    loaded = await anyio.to_thread.run_sync(load, options)
    data_dir = options.data_dir
    await anyio.to_thread.run_sync(partial(data_dir.mkdir, 0o700, parents=True, exist_ok=True))
    os.environ[DATA_DIR_VARIABLE] = str(data_dir)
    async with AsyncExitStack() as stack:
        process = MachineIds().new_id("proc")
        ledger = await _ledger(stack, options, data_dir, process)
        broker = await stack.enter_async_context(open_broker(options, loaded.settings))
        buses = await _buses(stack, broker, options, loaded.settings)
        if "gateway" in options.roles:
            await buses("gateway").prepare_streams(sorted(loaded.app.agents))
        if options.paused and ledger is not None:
            _ = await ledger.apply([Hold(hold=HoldRow(reason="started with --paused"))])
        health = await _health(stack, options, loaded.settings, buses, ledger)
        roles = await _assembled(options, loaded, broker, buses, ledger, process)
        await _serve(roles, broker, loaded.settings, data_dir, health)
    log(Line.STOPPED)
    return 0


async def _ledger(
    stack: AsyncExitStack, options: DaemonOptions, data_dir: Path, process: str
) -> SqliteLedger | None:
    """The ledger first: whoever holds its lock is the daemon of this directory."""
    if "checkpointer" not in options.roles:
        return None
    ledger = await SqliteLedger.open(data_dir / LEDGER_FILE, MachineClock().now, process=process)
    _ = stack.push_async_callback(ledger.close)
    if ledger.predecessor:  # its runs need not wait for its lease; joined owners have their own
        _ = await ledger.apply([Renew(process=ledger.predecessor, lease_s=0)])
    return ledger


async def _health(
    stack: AsyncExitStack,
    options: DaemonOptions,
    settings: Settings,
    buses: Callable[[str], WireBus],
    ledger: SqliteLedger | None,
) -> Health | None:
    """The HTTP door, listening; None where nobody asked for one."""
    listen = settings.http.listen
    if not listen:
        return None
    health = health_of(listen, options.roles, buses, ledger, MachineClock())
    _ = await stack.enter_async_context(health.listening())
    return health


async def _buses(
    stack: AsyncExitStack, broker: Broker, options: DaemonOptions, settings: Settings
) -> Callable[[str], WireBus]:
    """One connection with the union of rights for all roles, else one for each role's user."""
    if options.roles == ROLES and options.join is None:
        bus = await stack.enter_async_context(_connected(broker, DAEMON, settings))
        return lambda _role: bus
    buses = {
        role: await stack.enter_async_context(_connected(broker, role, settings))
        for role in options.roles
    }
    return buses.__getitem__


@asynccontextmanager
async def _connected(broker: Broker, user: str, settings: Settings) -> AsyncGenerator[WireBus]:
    times = settings.runtime
    pace = Pace(heartbeat_s=times.heartbeat_s, silence_s=times.silence_s, skew_s=times.skew_s)

    def credentials() -> Credentials:
        return broker.credentials(user)

    async with client.connect(
        broker.url,
        credentials,
        name=f"treadle-{user}",
        pace=pace,
        deadline_s=JOIN_S,
        patience_s=JOIN_S,
    ) as bus:
        yield bus


async def _assembled(
    options: DaemonOptions,
    loaded: Loaded,
    broker: Broker,
    buses: Callable[[str], WireBus],
    ledger: SqliteLedger | None,
    process: str,
) -> Roles:
    app = loaded.app
    is_asking = "planner" in options.roles
    find = partial(models_of, app, loaded.settings, options.model, is_asking=is_asking)
    agents, models = await anyio.to_thread.run_sync(find)
    app, agents, models = await anyio.to_thread.run_sync(with_calls, app, agents, models)
    signer = await _signer(options, broker)
    ids = MachineIds()
    parts = Parts(
        bus_of=buses,
        ledger=ledger,
        app=app,
        agents=agents,
        models=models,
        settings=loaded.settings,
        policy=loaded.policy,
        signer=signer,
        public_key=signer.public_key if signer is not None else broker.grant_public_key,
        clock=MachineClock(),
        ids=ids,
        chance=machine_chance,
        process=process,
        tools=options.tools,
    )
    return assemble(parts, options.roles)


async def _signer(options: DaemonOptions, broker: Broker) -> Signer | None:
    """The signing key, where it is needed: to sign, or to tell joiners its public half."""
    if "authoriser" not in options.roles and isinstance(broker, Joined):
        return None
    return await anyio.to_thread.run_sync(load_signer, options.data_dir)


# ------------------------------------------------------------------ while it runs
async def _serve(
    roles: Roles, broker: Broker, settings: Settings, data_dir: Path, health: Health | None
) -> None:
    def leave(signum: int) -> None:
        broker.kill()
        leave_at_once(signum)

    supervisor = Supervisor(
        clock=MachineClock(),
        chance=machine_chance,
        grace_s=settings.runtime.grace_s,
        leave=leave,
    )
    specs = [*roles.specs, *([_server_spec(broker)] if isinstance(broker, Own) else [])]
    specs += [health.spec] if health is not None else []
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_announce, roles, broker, data_dir, health)
        try:
            _ = await supervisor.run(specs)
        finally:
            if not isinstance(broker, Joined):
                (data_dir / CONNECTION_FILE).unlink(missing_ok=True)
            tasks.cancel_scope.cancel()


def _server_spec(broker: Own) -> ChildSpec:
    async def run() -> None:
        try:
            await broker.server.watch()
        except ServerError:
            await broker.server.restart()
            raise
        await anyio.sleep_forever()

    return ChildSpec(name="nats-server", run=run)


async def _announce(roles: Roles, broker: Broker, data_dir: Path, health: Health | None) -> None:
    """Say where we are once every role here can be asked."""
    if not isinstance(broker, Joined):
        signer = await anyio.to_thread.run_sync(load_signer, data_dir)
        await anyio.to_thread.run_sync(
            write_join, data_dir, broker.url, broker.users, ROLES, signer.public_key
        )
    with anyio.move_on_after(READY_S) as limit:
        await roles.ready()
    if limit.cancelled_caught:
        raise ServerError(f"not every role was ready within {READY_S:g} s")
    http = health.url if health is not None else None
    if health is not None:
        health.is_up()
    where = ""
    if not isinstance(broker, Joined):
        write = partial(write_connection, http=http, started_at=MachineClock().now())
        where = f" {await anyio.to_thread.run_sync(write, data_dir, broker.url, broker.users)}"
    log(Line.READY, url=broker.url)
    if http is not None:
        where += f" {http}"
    heap.settle()
    print(f"ready {broker.url}{where}", file=sys.stderr, flush=True)  # noqa: T201 - for people
