"""Defects of the budget: what an attempt, a silence and the final turn must not cost."""

# Private parts are replaced by what is simpler than their types.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportPrivateUsage=false
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from typing import Any

from msgspec.structs import replace

from actors import planner
from actors.orchestrator import thinking
from messages.parts import Amount
from runtime.loop import budget, steps
from tests.simulation.plants.plant import Mix, Patch, Plant


def attempt_not_reserved(patch: Patch) -> None:
    """A further attempt is made under the reservation that paid for the one before."""
    failed = patch.put(steps, "attempt_failed", None)

    def unpaid(state: Any, event: Any) -> Any:
        told = failed(state, replace(event, charged=Amount()))
        return replace(told, reservation=state.reservation)

    patch.put(steps, "attempt_failed", unpaid)
    noted = patch.put(thinking, "_failed", None)

    async def again(hand: Any, told: Any) -> bool:
        is_going = await noted(hand, told)
        hand.pen.may_use_reservation = hand.pen.state.reservation is not None
        return is_going

    patch.put(thinking, "_failed", again)


def silence_is_free(patch: Patch) -> None:
    decided = patch.put(planner, "_decided", None)

    def free(answer: Any, agent: Any, request: Any) -> Any:
        usage, charged = decided(answer, agent, request)
        return usage, Amount() if answer.usage is None else charged

    patch.put(planner, "_decided", free)


def nothing_kept(patch: Patch) -> None:
    patch.put(budget, "kept_back", lambda _limits: budget.Kept())


SPENDING = (
    Plant(
        name="attempt not reserved",
        shows=("asked_too_often", "overspent"),
        without="each attempt pays its reservation first",
        breaks=attempt_not_reserved,
        mix=Mix(faults={"provider": 2}),
    ),
    Plant(
        name="usage missing counted as zero",
        shows=("uncharged", "overspent"),
        without="what is not reported is charged at the reservation",
        breaks=silence_is_free,
        mix=Mix(faults={"provider": 2}),
    ),
    Plant(
        name="final turn not kept back",
        shows=("no_final_turn",),
        without="a share of each budget is kept for the final turn",
        breaks=nothing_kept,
        mix=Mix(kinds=("thrifty", "poor")),
    ),
)
