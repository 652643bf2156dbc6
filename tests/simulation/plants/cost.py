"""Defects that break no promise but cost: found where a counter is half as large again."""

# Private parts are replaced by what is simpler than their types.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportPrivateUsage=false
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from typing import Any

from msgspec.structs import replace

from actors.executor import Executor
from actors.orchestrator.drive import Drive
from actors.orchestrator.pen import Pen
from messages.ledger import Append
from runtime.ledger.rules import append
from tests.simulation.plants.plant import Mix, Patch, Plant

_WRITES = Mix(
    kinds=("pay", "book", "note"),
    faults={"loss": 2, "slow": 0, "kill": 1, "downstream": 0, "disk": 0, "freeze": 0},
)


def no_append_id(patch: Patch) -> None:
    true_append = patch.put(append, "append", None)

    def forgetful(t: Any, op: Append, now: float) -> Any:
        head = t.run(op.tenant, op.run_id)
        if head is not None and op.append_id == head.append_id:
            op = replace(op, append_id=f"{op.append_id}-again")
        return true_append(t, op, now)

    patch.put(append, "append", forgetful)


def no_settle(patch: Patch) -> None:
    async def silent(self: Any, request: Any, *rest: Any) -> bool:
        del self, request
        return rest[1] != "error"

    patch.put(Executor, "_settle", silent)


def never_clean(patch: Patch) -> None:
    patch.put(Pen, "releases_cleanly", property(lambda _self: False))


def never_poison(patch: Patch) -> None:
    patch.put(Drive, "_is_poison", lambda _self: False)


COST = (
    Plant(
        name="no append id",
        without="a repeated append is answered again",
        breaks=no_append_id,
        mix=Mix(faults={"loss": 2, "repeat": 2}),
        counter="conflicts",
    ),
    Plant(
        name="no settle",
        without="the executor records what happened",
        breaks=no_settle,
        mix=_WRITES,
        counter="unsettled",
    ),
    Plant(
        name="never released cleanly",
        without="a cleanly released reservation may be used",
        breaks=never_clean,
        mix=Mix(faults={"drain": 2, "kill": 0, "freeze": 0, "provider": 0, "loss": 0}),
        counter="lost_steps",
    ),
    Plant(
        name="no poison",
        without="a run whose owners die is set aside",
        breaks=never_poison,
        mix=Mix(kinds=("deadly",), faults={"kill": 0, "freeze": 0}, job={"cancel_s": 0.0}),
        counter="killed_by_a_run",
    ),
)
