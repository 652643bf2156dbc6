"""What the command line asks of whoever answers: a daemon, or a data directory.

``treadle.Client`` and ``treadle.offline.Offline`` are the two; unit tests bring a third.
"""

from collections.abc import AsyncGenerator, Awaitable, Generator, Mapping, Sequence
from typing import Any, Literal, Protocol

Reply = Mapping[str, Any]


class Reader(Protocol):
    """What can be asked of a daemon and of a data directory alike."""

    async def show(self, run_id: str, *, at: int | None = None) -> Reply:
        """One run."""
        ...

    async def trace(self, run_id: str) -> Reply:
        """One run's steps: times, tokens, cost, calls."""
        ...

    async def list(
        self,
        *,
        status: str | None = None,
        agent: str | None = None,
        labels: Mapping[str, str] | None = None,
        since: float | None = None,
        limit: int = 50,
        ended: bool = False,
    ) -> Reply:
        """``{"runs": [...]}``."""
        ...

    async def metrics(
        self,
        *,
        since: float | None = None,
        month: str | None = None,
        by: Sequence[Literal["tenant", "agent", "model"]] = (),
        labels: Mapping[str, str] | None = None,
    ) -> Reply:
        """The figures, and those of each group in ``groups``."""
        ...

    def events(self, run_id: str, *, after: int = -1) -> Awaitable[Reply]:
        """A page: ``{"events": [...], "version", "terminal"}``."""
        ...

    async def approvals(self, ids: Sequence[str] = ()) -> Reply:
        """``{"approvals": [...]}``."""
        ...

    async def effects(
        self,
        *,
        key: str | None = None,
        run_id: str | None = None,
        unresolved: bool = False,
        limit: int = 100,
    ) -> Reply:
        """``{"effects": [...]}``."""
        ...


class Recorded(Reader, Protocol):
    """What can be asked of a data directory besides."""

    async def check_ledger(self) -> Reply:
        """``{name, ok, detail, hint}``."""
        ...


class Feed(Protocol):
    """Events of a run: a page when awaited, all there are and will be when followed."""

    def __await__(self) -> Generator[Any, None, Reply]:
        """A page."""
        ...

    def follow(self) -> AsyncGenerator[Reply]:
        """Each event, until the run has ended."""
        ...


class Api(Reader, Protocol):
    """What only a daemon can do."""

    def events(self, run_id: str, *, after: int = -1) -> Feed:
        """See ``Reader``, and live."""
        ...

    async def submit(
        self,
        agent: str,
        goal: str,
        *,
        inputs: Mapping[str, Any] | None = None,
        run_id: str | None = None,
        limits: Mapping[str, Any] | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> Reply:
        """``{"run_id", "existing"}``, once the run is durable."""
        ...

    async def approve(self, approval_id: str, *, action: str = "", reason: str = "") -> Reply:
        """``{"approval"}``."""
        ...

    async def deny(self, approval_id: str, *, action: str = "", reason: str = "") -> Reply:
        """``{"approval"}``."""
        ...

    async def cancel(self, run_id: str, *, reason: str = "") -> Reply:
        """``{"run_id"}``."""
        ...

    async def answer(self, run_id: str, answer: Any, *, question_id: str | None = None) -> Reply:
        """``{"run_id", "question_id", "existing"}``; the run that goes on."""
        ...

    async def pause(
        self,
        run_id: str | None = None,
        *,
        agent: str | None = None,
        everything: bool = False,
        reason: str = "",
    ) -> Reply:
        """``{"run_id"}`` or ``{"held"}``."""
        ...

    async def resume(
        self,
        run_id: str | None = None,
        *,
        agent: str | None = None,
        everything: bool = False,
        reason: str = "",
    ) -> Reply:
        """``{"run_id"}`` or ``{"lifted"}``."""
        ...

    async def resolve_effect(
        self,
        key: str,
        *,
        happened: bool,
        result: Any = None,
        reason: str = "",
        run_id: str | None = None,
    ) -> Reply:
        """``{"effect", "run_id", "problem"}``; the run that goes on, or why none does."""
        ...

    async def agents(self) -> Reply:
        """``{"agents": [...]}``."""
        ...

    async def tools(self) -> Reply:
        """``{"tools": [...]}``."""
        ...

    async def call_tool(
        self, tool: str, arguments: Mapping[str, Any], *, run_id: str | None = None
    ) -> Reply:
        """``{"run_id", "existing"}`` of the run that calls it."""
        ...

    async def actors(self) -> Reply:
        """``{"actors": [...]}``."""
        ...

    async def letters(self, letter_id: int | None = None, *, limit: int = 100) -> Reply:
        """``{"letters": [...]}``."""
        ...

    async def retry_letter(self, letter_id: int) -> Reply:
        """``{"letter"}``."""
        ...

    async def drop_letter(self, letter_id: int, *, reason: str) -> Reply:
        """``{"letter"}``."""
        ...

    async def checkup(self) -> Reply:
        """``{"at", "checks": [...]}``."""
        ...

    async def ping(self) -> Reply:
        """``{"tenant", "principal", "at"}``."""
        ...
