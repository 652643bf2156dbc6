"""The provider: plays the plan, takes its time, fails in many ways, and keeps its own bill."""

from collections import Counter, defaultdict

import anyio
import msgspec
from msgspec.structs import replace

from messages.errors import ModelError
from messages.parts import Amount, Price, Usage
from runtime.model.port import ModelAnswer, ModelRequest
from runtime.model.scripted import ScriptedModel
from tests.simulation.agents import plays
from tests.simulation.judge import Judge
from tests.simulation.options import Options

_SHARE = (0.0, 0.05, 0.2)
_REASONS = ("overloaded", "provider_error", "connection", "timeout", "garbled")


def _bytes_of(request: ModelRequest) -> int:
    """No tokeniser makes more tokens than there are bytes."""
    sent = (request.system, request.tools, request.messages)
    return len(msgspec.json.encode(sent))


class Provider:
    """A ``Model``.

    Attributes:
        bill: By run: what the provider really was used for, lost and unreported answers included.
        asked: Attempts by run.
        is_healed: Nothing goes wrong any more.
    """

    def __init__(self, options: Options, judge: Judge, price: Price) -> None:
        self._judge = judge
        self._price = price
        self.bill: dict[str, Amount] = defaultdict(Amount)
        self.asked: Counter[str] = Counter()
        self.is_healed = False
        self._shares: dict[str, float] = {}
        self._script = ScriptedModel(plays)
        self._chance = options.chance("provider")
        self._share = _SHARE[options.level("provider")]

    async def attempt(self, request: ModelRequest) -> ModelAnswer:
        """See ``Model``."""
        chance = self._chance
        self.asked[request.goal] += 1
        self._judge.asked(request.goal, self.asked[request.goal])
        is_bad = not self.is_healed and chance.random() < self._share
        await anyio.sleep(chance.uniform(0.05, 0.4))
        if is_bad and chance.random() < 0.5:
            reason = chance.choice(_REASONS)
            raise ModelError(reason, "the provider fails", is_free=reason == "overloaded")
        answer = await self._script.attempt(request)
        usage = self._usage(request)
        self._charge(request.goal, usage)
        is_silent = is_bad and chance.random() < 0.5
        answer = replace(answer, usage=None if is_silent else usage)
        if is_bad and not is_silent:  # it worked and was paid for, and nobody hears of it
            await anyio.sleep(chance.uniform(1.0, 30.0))
            raise ModelError("connection", "the answer was lost")
        return answer

    def _charge(self, goal: str, usage: Usage) -> None:
        bill = self.bill[goal]
        cost = bill.cost_microusd + self._price.cost(usage)
        self.bill[goal] = Amount(tokens=bill.tokens + usage.tokens, cost_microusd=cost)

    def _usage(self, request: ModelRequest) -> Usage:
        """What was used of what was allowed, at times nearly all of it.

        The same beginning has the same count, as with any tokeniser.
        """
        share = self._shares.setdefault(request.goal, self._chance.choice((0.3, 1.0)))
        output = self._chance.randint(20, request.max_output_tokens)
        return Usage(input_tokens=int(_bytes_of(request) * share), output_tokens=output)
