"""``/livez`` and ``/readyz``: is this process alive, and may it be given work.

Alive is a process whose event loop answers. Ready is one that serves every role it was started
for, is connected to NATS and hears from the ledger; while it starts or drains it is not.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Final, NamedTuple
from urllib.parse import parse_qs

import anyio

from messages.errors import TreadleError
from runtime.clock import Clock
from runtime.http.server import HttpAnswer, HttpRequest, HttpServer
from runtime.supervisor import ChildSpec, Phase

CHECK_S: Final = 2.0
"""A check without an answer for so long has failed."""
FRESH_S: Final = 1.0
"""So long an answer is given again: many probes cost as much as one."""
_TICK_S: Final = 0.5

Check = Callable[[], Awaitable[str | None]]
"""None: all is well; else what is wrong, in words. May raise a TreadleError."""


class Result(NamedTuple):
    """What one check found."""

    name: str
    problem: str | None


class Health:
    """The health of one process over HTTP.

    Replies: ``GET /livez``: 200. ``GET /readyz``: 200, or 503 while it starts, while it drains, or
    while a check fails; ``?verbose`` lists every check. Nothing else is served.
    """

    def __init__(self, *, listen: str, checks: Mapping[str, Check], clock: Clock) -> None:
        """Declare it; ``spec`` runs it.

        Args:
            listen: HOST:PORT on loopback.
            checks: What "ready" means, by name.
            clock: For how long an answer is fresh, and how late the loop is.

        Raises:
            ConfigError: ``listen`` is no address, or one that others can reach.
        """
        self._checks = checks
        self._clock = clock
        self._server = HttpServer(listen, self.handle)
        self._is_ready = False
        self._is_draining = False
        self._seen: tuple[float, list[Result]] | None = None
        self._looking = anyio.Lock()
        self._late_s = 0.0

    @property
    def url(self) -> str:
        """Where it listens; empty before it does."""
        return self._server.url

    @property
    def spec(self) -> ChildSpec:
        """How the supervisor runs it: to the very end, so that a probe hears of a drain."""
        return ChildSpec(name="http", run=self.run, drain=self.drain)

    @asynccontextmanager
    async def listening(self) -> AsyncGenerator[str]:
        """Hold the port while entered, so that one that is taken ends the start at once.

        Raises:
            ConfigError: The port is taken, or may not be used.
        """
        try:
            yield await self._server.open()
        finally:
            with anyio.CancelScope(shield=True):
                await self._server.close()

    async def run(self) -> None:
        """Serve until cancelled."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._server.run)
            tasks.start_soon(self._tick)

    async def drain(self, phase: Phase) -> None:
        """Say 503 from the first word of a drain on; go on answering until the end."""
        if phase is Phase.STOP_TAKING:
            self._is_draining = True

    def is_up(self) -> None:
        """Everything this process was started for is there."""
        self._is_ready = True

    async def handle(self, request: HttpRequest) -> HttpAnswer:
        """Answer one request."""
        is_verbose = "verbose" in parse_qs(request.query, keep_blank_values=True)
        match request.path:
            case "/livez":
                lag = f"event loop at most {self._late_s * 1000:.0f} ms late"
                return _answer([Result(lag, None)], is_verbose=is_verbose)
            case "/readyz":
                return _answer(await self._results(), is_verbose=is_verbose)
            case _:
                return HttpAnswer(status=HTTPStatus.NOT_FOUND, body=b"/livez and /readyz\n")

    async def _results(self) -> list[Result]:
        if self._is_draining:
            return [Result("serving", "draining")]
        if not self._is_ready:
            return [Result("serving", "starting")]
        async with self._looking:
            now = self._clock.monotonic()
            if self._seen is None or now - self._seen[0] > FRESH_S:
                self._seen = (now, await self._look())
            return self._seen[1]

    async def _look(self) -> list[Result]:
        found: dict[str, str | None] = {}

        async def one(name: str, check: Check) -> None:
            try:
                with anyio.fail_after(CHECK_S):
                    found[name] = await check()
            except TimeoutError:
                found[name] = f"no answer within {CHECK_S:g} s"
            except TreadleError as error:
                found[name] = error.message

        async with anyio.create_task_group() as tasks:
            for name, check in self._checks.items():
                tasks.start_soon(one, name, check)
        return [Result(name, found[name]) for name in self._checks]

    async def _tick(self) -> None:
        """Measure how late the event loop is; the worst is forgotten by half each time."""
        while True:
            before = self._clock.monotonic()
            await self._clock.sleep(_TICK_S)
            late_s = max(0.0, self._clock.monotonic() - before - _TICK_S)
            self._late_s = max(late_s, self._late_s / 2)


def _answer(results: list[Result], *, is_verbose: bool) -> HttpAnswer:
    failed = [result for result in results if result.problem is not None]
    if is_verbose:
        lines = [
            f"[+] {name}" if problem is None else f"[-] {name}: {problem}"
            for name, problem in results
        ]
    else:
        lines = [f"{name}: {problem}" for name, problem in failed]
    text = "\n".join([*lines, "not ready" if failed else "ok", ""])
    status = HTTPStatus.SERVICE_UNAVAILABLE if failed else HTTPStatus.OK
    return HttpAnswer(status=status, body=text.encode())
