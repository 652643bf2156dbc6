"""The orchestrator in a process of its own, for the measurement with two processes.

``python -m bench.other``: a line of JSON on stdin says where the broker is and how to log in; says
``ready`` and drives runs until stdin ends.
"""

import sys
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
import msgspec

from bench.stage import roles_of
from runtime import heap
from runtime.bus import client
from runtime.bus.permissions import Credentials
from runtime.clock import MachineClock, machine_chance
from runtime.supervisor import Supervisor

if TYPE_CHECKING:
    from collections.abc import Callable


class Where(msgspec.Struct):
    """What the process is told."""

    url: str
    user: str
    password: str
    inbox_prefix: str


async def main() -> None:
    """Serve until stdin ends."""
    read: Callable[[], str] = sys.stdin.readline
    where = msgspec.json.decode(await anyio.to_thread.run_sync(read), type=Where)
    user = Credentials(user=where.user, password=where.password, inbox_prefix=where.inbox_prefix)
    async with client.connect(where.url, user) as bus, anyio.create_task_group() as tasks:
        roles, _ = roles_of(bus, None, ("orchestrator",))
        supervisor = Supervisor(clock=MachineClock(), chance=machine_chance, grace_s=5, signals=())
        tasks.start_soon(supervisor.run, roles.specs)
        await roles.ready()
        heap.settle()
        print("ready", flush=True)
        await anyio.to_thread.run_sync(read)
        supervisor.stop()


if __name__ == "__main__":
    anyio.run(main)
