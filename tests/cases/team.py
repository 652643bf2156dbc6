"""A case in several processes: the first serves every role, others join it for some."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from tests.cases.place import ENV, Place
from tests.system.daemon import Daemon

BRISK = {**ENV, "TREADLE_RUNTIME__SILENCE_S": "1.0", "TREADLE_RUNTIME__HEARTBEAT_S": "0.2"}
"""Silence is noticed soon, so that a slow tool outlasts it within a test's time."""


class Team(Place):
    """One case, its first process, and its other workers by name."""

    def __init__(self, data_dir: Path, case: str, env: dict[str, str] = BRISK) -> None:
        self._app = f"tests.cases.apps.{case}:app"
        self._env = env
        super().__init__(Daemon(data_dir, app=self._app, env=env), case)
        self.workers: dict[str, Daemon] = {}

    async def join(self, name: str, roles: str) -> Daemon:
        """One more process that serves these roles."""
        worker = self.workers.get(name)
        if worker is None:
            worker = Daemon(self.data_dir, app=self._app, env=self._env, name=name)
            self.workers[name] = worker
        await worker.up("--roles", roles, "--join", str(self.data_dir / "join.json"))
        return worker

    async def close(self) -> None:
        async with AsyncExitStack() as stack:
            for daemon in (self.daemon, *self.workers.values()):
                stack.push_async_callback(daemon.close)


@asynccontextmanager
async def team(
    data_dir: Path, case: str, *, roles: str = "", env: dict[str, str] = BRISK
) -> AsyncGenerator[Team]:
    """The first process, up; with ``roles`` it serves only those."""
    one = Team(data_dir, case, env)
    try:
        await one.daemon.up(*(("--roles", roles) if roles else ()))
        yield one
    finally:
        await one.close()
