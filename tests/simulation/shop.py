"""The downstream: somebody else's system, which is the only judge of how often something happened.

A request that has left is out of our hands: it is done, or refused, whatever becomes of whoever
sent it, at most ``LATE_S`` later.
"""

from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio

from messages.errors import Correctable, Transient, Unknown
from tests.simulation.judge import Judge
from tests.simulation.machine import Machine
from tests.simulation.options import LATE_S, Options

if TYPE_CHECKING:
    import asyncio

MUTE = "mute"
"""In a key: it is done and never answered."""
_SHARE = (0.0, 0.08, 0.25)


class Shop:
    """Keeps what was done.

    Attributes:
        effects: How often, by key.
        things: How often, by what was done.
        names: What was to be done, by key.
        looked: What was read.
        replies: What was answered, by key, for those that are honoured.
        is_healed: Nothing goes wrong any more.
    """

    def __init__(self, machine: Machine, options: Options, judge: Judge) -> None:
        self._judge = judge
        self.effects: Counter[str] = Counter()
        self.replies: dict[str, int] = {}
        self.things: Counter[str] = Counter()
        self.names: dict[str, str] = {}
        self.looked: set[str] = set()
        self.is_healed = False
        self._machine = machine
        self._chance = options.chance("shop")
        self._share = _SHARE[options.level("downstream")]

    def _is_bad(self) -> bool:
        return not self.is_healed and self._chance.random() < self._share

    async def do(self, key: str, what: str, *, is_honoured: bool) -> int:
        """Have something done; the answer may never come.

        Args:
            key: The idempotency key.
            what: What is to be done at most once, whatever the key; empty: it may be done again.
            is_honoured: The same key again does nothing more and gets the same answer.
        """
        self._judge.sent(key)
        self.names[key] = what or key
        answered: asyncio.Future[int | Exception] = self._machine.create_future()
        travel_s = self._chance.random() * 0.2
        if self._is_bad():
            travel_s = self._chance.random() * LATE_S
        self._machine.outside(travel_s, self._arrive, key, is_honoured, answered)
        answer = await answered
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _arrive(
        self, key: str, is_honoured: bool, answered: "asyncio.Future[int | Exception]"
    ) -> None:
        answer: int | Exception
        if is_honoured and key in self.replies:
            answer = self.replies[key]
        elif self._is_bad():
            answer = self._chance.choice(
                (Transient("try again"), Correctable("no"), RuntimeError("500"))
            )
        else:
            self.effects[key] += 1
            self.things[self.names[key]] += 1
            self._judge.happened(key, self.things[self.names[key]])
            answer = self.replies[key] = self.effects[key]
        if not self._is_bad() and MUTE not in key:
            self._machine.outside(self._chance.random() * 0.1, _answer, answered, answer)

    async def find(self, key: str) -> int | None:
        """Whether it was done.

        Raises:
            Unknown: Nobody can say.
        """
        await anyio.sleep(self._chance.random() * 0.1)
        if self._is_bad():
            raise self._chance.choice((Unknown("who knows"), Transient("try again")))
        return self.effects[key] or None

    async def look(self, what: str) -> int:
        """Read something."""
        self.looked.add(what)
        await anyio.sleep(self._chance.random() * 0.1)
        if self._is_bad():
            raise self._chance.choice((Transient("try again"), RuntimeError("500")))
        return 1

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator["Shop"]:
        """What an App wants of deps."""
        await anyio.lowlevel.checkpoint()
        yield self


def _answer(answered: "asyncio.Future[int | Exception]", answer: int | Exception) -> None:
    if not answered.done():
        answered.set_result(answer)
