"""What owners announce as committed, compared with the journal that is left.

An owner publishes each event of an entry once the ledger has acknowledged that entry. If two
owners ever both succeed from one version, two different entries of that version were announced,
and the journal holds at most one of them.
"""

import json
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager

from nats.aio.msg import Msg

from messages.ledger import Entry
from runtime.views.events import entry_lines
from runtime.views.values import View
from tests.system.daemon import Daemon, listen


class Heard:
    """Announced events, as text, by run and version."""

    def __init__(self) -> None:
        self._lines: dict[tuple[str, int], set[str]] = {}
        self.count = 0

    async def note(self, message: Msg) -> None:
        """One message with a live event."""
        self.add(json.loads(message.data))

    def add(self, line: View) -> None:
        """One live event."""
        text = json.dumps(line, sort_keys=True)
        self._lines.setdefault((line["run_id"], line["version"]), set()).add(text)
        self.count += 1

    def not_in(self, run_id: str, entries: Iterable[Entry]) -> list[str]:
        """What was announced of a run and is not in its journal."""
        kept: dict[int, set[str]] = {}
        for entry in entries:
            lines = [json.dumps(line, sort_keys=True) for line in entry_lines(entry)]
            kept[entry.version] = set(lines)
        return [
            f"{run_id}: announced and not in the journal: {text}"
            for (run, version), lines in self._lines.items()
            if run == run_id
            for text in lines - kept.get(version, set())
        ]


@asynccontextmanager
async def listening(daemon: Daemon) -> AsyncGenerator[Heard]:
    """Hear every event while entered, as long as the server lives."""
    heard = Heard()
    async with daemon.observer() as client:
        await listen(client, "treadle.events.>", heard.note)
        yield heard
