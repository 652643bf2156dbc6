"""One schedule from its beginning to its end, and what is to be said of it."""

import gc
from dataclasses import dataclass, field
from typing import Any

import anyio
import msgspec
from msgspec.structs import replace

from messages.errors import BrokenChain
from messages.ledger import EffectRow, Load, Loaded
from messages.state import LoopState
from messages.status import Status
from runtime.bus.port import MAX_TRIES
from runtime.ledger import chain
from runtime.loop.evolve import fold
from runtime.loop.summary import summarise
from tests.simulation.agents import ROGUE, plan_of
from tests.simulation.judge import TENANT
from tests.simulation.options import END_S, HEAL_S, LAYOUTS, Options
from tests.simulation.people import People
from tests.simulation.plants.plant import USUAL, Mix
from tests.simulation.queue import result_of
from tests.simulation.trouble import arrange
from tests.simulation.world import World

_LOOK_S = 0.5


@dataclass(frozen=True)
class Played:
    """What came of one seed.

    Attributes:
        steps: Callbacks that ran.
        counts: What it cost, see ``Judge``.
        last: The newest events, where something was broken.
    """

    seed: int
    violations: tuple[str, ...]
    digest: str
    steps: int
    counts: dict[str, int] = field(default_factory=dict)
    last: tuple[str, ...] = ()


def play(seed: int, mix: Mix = USUAL) -> Played:
    """Play one seed."""
    return Play(mix.options(seed)).run()


class Play:
    """One world and the people in it, for as long as it takes."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._world = World(options)

    def run(self) -> Played:
        """Until every run has ended, or until it is clear that one never will."""
        world = self._world
        gc.disable()  # what a dead process left is looked at by nobody while others live
        try:
            for name, _ in LAYOUTS[self._options.layout]:
                world.start(name)
            world.start("people", People(world).act)
            arrange(world)
            world.machine.run_until_complete(self._watch())
            self._conclude()
            return self._played()
        finally:
            world.machine.close()
            gc.enable()

    def _played(self) -> Played:
        world, judge = self._world, self._world.judge
        return Played(
            seed=self._options.seed,
            violations=tuple(judge.violations),
            digest=judge.digest,
            steps=world.machine.steps,
            counts=dict(judge.counts),
            last=tuple(judge.last) if judge.violations else (),
        )

    async def _watch(self) -> None:
        await self._until(HEAL_S)
        self._world.heal()
        await self._until(END_S)

    async def _until(self, end_s: float) -> None:
        machine = self._world.machine
        while machine.time() < end_s and not self._is_done():  # noqa: ASYNC110 -- virtual time
            await anyio.sleep(_LOOK_S)

    def _is_done(self) -> bool:
        """Every run that was asked for has ended and its result can be read."""
        world = self._world
        is_all = world.told | world.excused >= {job.name for job in self._options.jobs}
        runs = world.judge.runs
        return (
            is_all
            and runs.keys() >= world.told - world.excused - self._set_aside()
            and all(account.is_over for account in runs.values())
            and all(result_of(world.queue, run_id) is not None for run_id in runs)
        )

    def _set_aside(self) -> set[str]:
        """Tasks that became dead letters: nobody who took them survived."""
        return {name for letter in self._world.queue.dead.values() for name in _named_in(letter)}

    # ------------------------------------------------------------------ the end
    def _conclude(self) -> None:
        world, broken = self._world, self._world.judge.broken
        for failure in world.machine.unseen_failures():
            broken("crash", failure)
        world.judge.counts["set_aside"] += len(self._set_aside())
        for job in self._options.jobs:
            if job.name not in world.judge.runs.keys() | world.excused | self._set_aside():
                broken("lost_task", job.name)
        for run_id in world.judge.runs:
            self._conclude_run(run_id)
        if ROGUE in world.shop.looked:
            broken("forged", "a tool ran under a grant that nobody gave")
        for row in world.disk.ledger.tables.newest_effects(TENANT, is_unresolved_only=False):
            self._conclude_key(row)

    def _conclude_run(self, run_id: str) -> None:
        world, broken = self._world, self._world.judge.broken
        [loaded] = world.disk.ledger.apply_now([Load(tenant=TENANT, run_id=run_id)])
        if not isinstance(loaded, Loaded):
            broken("unreadable", run_id)
            return
        try:
            chain.verify(loaded.entries, head_hash=loaded.row.head_hash)
        except BrokenChain as error:
            broken("chain", error.message)
        state = fold(loaded.entries)
        row, said = loaded.row.summary, summarise(state)
        # when a wait ended is read off the owner's clock, since the ledger's comes with the answer
        if replace(said, suspended_s=row.suspended_s) != row:
            broken("summary", f"{run_id}: the row does not say what its journal says")
        world.judge.counts["decisions"] += state.step_count
        if not state.status.is_terminal:
            broken("wedged", f"{run_id} is {state.status} {state.reason}")
        elif result_of(world.queue, run_id) is None:
            broken("unpublished", run_id)
        self._check_bill(state)
        if state.status is Status.SUCCEEDED:
            self._check_success(state)

    def _check_bill(self, state: LoopState) -> None:
        """What the provider says, lost answers included; a continuation has a budget of its own."""
        bill, lives = (
            self._world.provider.bill[state.goal],
            2 if self._is_continued(state.goal) else 1,
        )
        limits = state.limits
        is_over = bill.tokens > limits.max_tokens * lives
        if limits.max_cost_microusd is not None:
            is_over |= bill.cost_microusd > limits.max_cost_microusd * lives
        if is_over:
            self._world.judge.broken("overspent", f"{state.run_id} {bill}")

    def _is_continued(self, goal: str) -> bool:
        return any(job.kind == "ask" for job in self._options.jobs if job.name == goal)

    def _check_success(self, state: LoopState) -> None:
        """Every write of the plan happened, exactly once."""
        job = next(job for job in self._options.jobs if job.name == state.goal)
        for calls in plan_of(job):
            for tool, given in calls:
                if tool in {"pay", "book", "gift"}:
                    thing = f"{tool} {next(iter(given.values()))}"
                    self._check_once(state.run_id, thing, self._world.shop.things[thing])
        if job.kind == "note":
            rows = self._world.disk.ledger.tables.effects_of(TENANT, state.run_id)
            notes = sum(self._world.shop.effects[row.key] for row in rows)
            if notes != len(plan_of(job)):
                self._world.judge.broken("succeeded_without", f"{state.run_id}: {notes} notes")

    def _check_once(self, run_id: str, thing: str, times: int) -> None:
        if times != 1:
            self._world.judge.broken("succeeded_without", f"{run_id}: {thing} {times} times")

    def _conclude_key(self, row: EffectRow) -> None:
        judge, times = self._world.judge, self._world.shop.effects[row.key]
        if row.state == "done" and times != 1:
            judge.broken("done_but_not", f"{row.key}: {times}")
        if row.state == "free" and times:
            judge.broken("free_but_done", f"{row.key}: {times}")
        account = judge.runs.get(row.run_id)
        if row.state in {"intended", "started"} and account is not None and account.is_over:
            judge.broken("open_key", f"{row.key} is {row.state} after {row.run_id} has ended")


def _named_in(letter: bytes) -> set[str]:
    """The task of a letter, if it was really tried as often as it may be."""
    read: dict[str, Any] = msgspec.json.decode(letter)
    run_id = msgspec.json.decode(read["payload"]).get("run_id") if read["sequence"] else None
    return {run_id} if run_id and read["deliveries"] >= MAX_TRIES else set()
