"""Defects of the roles: what the orchestrator, the executor and the planner must not do."""

# Private parts are replaced by what is simpler than their types.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportPrivateUsage=false
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from typing import Any

from msgspec.structs import replace

import actors.executor as module
from actors.executor import Executor
from actors.orchestrator import execute, reconcile, thinking
from actors.orchestrator.hand import Hand
from actors.orchestrator.pen import Lost, Pen
from messages import execution
from messages.authority import GrantedAction
from messages.events import StepReserved
from messages.ledger import Claim, Claimed
from messages.parts import Amount, Problem
from runtime.asking import Asking
from runtime.ledger.rules import agree, derive, effects
from runtime.loop import budget
from runtime.loop import next as loop_next
from runtime.policy import rules
from runtime.tools import validate
from tests.simulation.plants.owners import LOSSY
from tests.simulation.plants.plant import Mix, Patch, Plant


def random_keys(patch: Patch) -> None:
    """Each attempt has a key of its own, under which all else is right."""
    true_key = patch.put(validate, "key_of", None)

    def fresh(spec: Any, arguments: Any, *, origin: str, step: int, ordinal: int) -> Any:
        key = true_key(spec, arguments, origin=origin, step=step, ordinal=ordinal)
        return f"{key}.{origin}.{step}" if isinstance(key, str) else key

    patch.put(validate, "key_of", fresh)
    patch.put(rules, "is_key_of", lambda *_, **__: True)  # the authoriser would see it


def no_grant(patch: Patch) -> None:
    def trusting(self: Any, request: Any, purpose: Any) -> GrantedAction:
        action = request.action
        return GrantedAction(
            ordinal=action.ordinal,
            tool=action.tool,
            action_hash=action.action_hash,
            key=action.key,
            purpose=purpose,
            is_replay=request.grant.actions[0].is_replay if request.grant.actions else False,
        )

    patch.put(Executor, "_verify", trusting)


def no_claim(patch: Patch) -> None:
    again = patch.put(Asking, "again", None)

    async def unclaimed(self: Any, request: Any, **more: Any) -> Any:
        if isinstance(request, Claim):
            return Claimed(at=request.expires_at - 5.0)
        return await again(self, request, **more)

    patch.put(Asking, "again", unclaimed)


def no_durable_intent(patch: Patch) -> None:
    no_claim(patch)

    async def undurable(hand: Hand, ordinals: tuple[int, ...]) -> bool:
        for ordinal in ordinals:
            call = hand.call(ordinal)
            if call.action is not None and call.action.key is not None:
                execute.intend(hand, call)
        return True

    patch.put(execute, "_intend", undurable)


def blind_again(patch: Patch) -> None:
    async def optimistic(hand: Hand, call: Any, why: str) -> bool:
        del why
        reconcile._note(hand, call, "absent", "none")
        return True

    patch.put(reconcile, "_undecidable", optimistic)
    patch.put(agree, "_is_absent", lambda *_: True)


def any_result(patch: Patch) -> None:
    """What is unknown counts as an error, after which a call may be made again."""
    observe = patch.put(execute, "observe", None)

    def certain(hand: Hand, ordinal: int, outcome: Any) -> None:
        if outcome is None or outcome.kind == "unknown":
            problem = outcome.problem if outcome is not None else None
            outcome = execution.Outcome(kind="error", problem=problem)
        observe(hand, ordinal, outcome)

    patch.put(execute, "observe", certain)
    patch.put(derive, "is_error_proof", lambda _row: True)


def after_a_lost_race(patch: Patch) -> None:
    flush = patch.put(Pen, "flush", None)

    async def stubborn(self: Any) -> None:
        try:
            await flush(self)
        except Lost:
            self._events = []

    patch.put(Pen, "flush", stubborn)
    older_grants_claim(patch)  # which alone would stop it


def older_grants_claim(patch: Patch) -> None:
    """Not only the newest grant of a key may claim it, each of them once."""
    refusal = patch.put(effects, "_claim_refusal", None)

    def lax(t: Any, op: Claim, row: Any, head: Any, now: float) -> Any:
        if any(claim.grant_id == op.grant_id for claim in row.claims):
            return "CLAIMED_BEFORE"
        bare = replace(row, grant_id=op.grant_id, state="intended", claims=())
        return refusal(t, op, bare, head, now)

    patch.put(effects, "_claim_refusal", lax)


def counted_afterwards(patch: Patch) -> None:
    """A step is made durable with its decision, not before the model is asked."""
    decide = patch.put(thinking, "decide", None)

    async def early(hand: Hand, directive: Any) -> bool:
        if directive.reserve is not None:
            hand.pen.add(StepReserved(reservation=directive.reserve))
            hand.pen.may_use_reservation = True
            return True
        commit, hand.commit = hand.commit, _nothing
        try:
            is_going = True
            while hand.pen.state.reservation is not None and is_going:
                events, hand.pen._events = hand.pen._events, []
                is_going = await decide(hand, directive)
                hand.pen._events = [*events, *hand.pen._events]
        finally:
            hand.commit = commit
        await commit()
        return is_going

    patch.put(thinking, "decide", early)


async def _nothing() -> None:
    """Commits nothing."""


def no_reservation(patch: Patch) -> None:
    def small(state: Any, agent: Any, kept: Any, input_tokens: int) -> Any:
        del state, kept, input_tokens
        return Amount(tokens=1_000_000, cost_microusd=10**9), agent.max_output_tokens

    patch.put(budget, "_fit", small)
    patch.put(budget, "left", lambda _state: Amount(tokens=10_000_000, cost_microusd=10**10))


def final_turns(patch: Patch) -> None:
    final = patch.put(budget, "final_reservation", None)
    patch.put(
        budget,
        "final_reservation",
        lambda state, agent, take: final(replace(state, has_had_final_turn=False), agent, take),
    )


def refusal_is_proof(patch: Patch) -> None:
    def error(code: str, message: str) -> Any:
        problem = Problem(code=code, message=message)
        return execution.Outcome(kind="error", problem=problem)

    patch.put(module, "_unknown", error)
    patch.put(derive, "is_error_proof", lambda _row: True)


def one_more_try(patch: Patch) -> None:
    for owner in (loop_next, execute, reconcile):
        patch.put(owner, "MAX_INTENTS", 10**9)


def ends_without_settling(patch: Patch) -> None:
    """A run that has open calls goes on as if it had none."""
    patch.put(loop_next, "OPEN_PHASES", frozenset({"nothing"}))


ROLES = (
    Plant(
        name="random key per attempt",
        shows=("double_effect",),
        without="the key is the action's, never the attempt's",
        breaks=random_keys,
        mix=Mix(kinds=("shared",), faults={"kill": 1, "slow": 1}),
    ),
    Plant(
        name="executor ignores the grant",
        shows=("forged",),
        without="nothing starts without the authoriser's signature",
        breaks=no_grant,
        mix=Mix(has_rogue=True),
    ),
    Plant(
        name="no claim",
        shows=("no_claim", "double_effect"),
        without="a write is claimed before it starts",
        breaks=no_claim,
        mix=Mix(kinds=("book", "gift"), faults={"repeat": 2}),
    ),
    Plant(
        name="no durable intent",
        shows=("no_intent",),
        without="Intended is durable before Execute",
        breaks=no_durable_intent,
        mix=Mix(kinds=("pay", "book")),
    ),
    Plant(
        name="blind tool retried",
        shows=("double_effect",),
        without="blind is never retried",
        breaks=blind_again,
        mix=Mix(kinds=("gift", "parallel"), faults={"downstream": 2, "loss": 1, "kill": 2}),
    ),
    Plant(
        name="any result accepted",
        shows=("double_effect", "free_but_done"),
        without="unknown is not an error",
        breaks=any_result,
        mix=Mix(kinds=("book", "gift"), faults={"downstream": 2, "loss": 2, "slow": 1}),
    ),
    Plant(
        name="refusal is proof",
        shows=("double_effect", "free_but_done"),
        without="a refused duplicate does not say that the first one failed",
        breaks=refusal_is_proof,
        mix=Mix(
            kinds=("book", "gift", "parallel"),
            faults={"repeat": 2, "slow": 1, "downstream": 2, "kill": 0},
            layouts=("split", "apart"),
        ),
    ),
    Plant(
        name="act after a lost race",
        shows=("double_effect",),
        without="who has lost a run stops, and its grant can claim nothing any more",
        breaks=after_a_lost_race,
        mix=Mix(
            kinds=("book",),
            faults={"freeze": 2, "slow": 0, "kill": 0, "loss": 0, "repeat": 0, "downstream": 0},
            layouts=("split", "apart"),
        ),
    ),
    Plant(
        name="budget without reservation",
        shows=("overspent",),
        without="a step is reserved before the model is asked",
        breaks=no_reservation,
        mix=Mix(kinds=("thrifty",)),
    ),
    Plant(
        name="step counted after the call",
        shows=("asked_too_often",),
        without="a step is durable before the model is asked",
        breaks=counted_afterwards,
        mix=Mix(kinds=("poor", "pay")),
    ),
    Plant(
        name="final turns",
        shows=("two_final_turns",),
        without="the final turn happens at most once",
        breaks=final_turns,
        mix=Mix(kinds=("poor",), faults={"provider": 1, "kill": 1, "freeze": 1}),
    ),
    Plant(
        name="tried for ever",
        shows=("wedged",),
        without="at most five intents of one call",
        breaks=one_more_try,
        mix=Mix(kinds=("mute",)),
    ),
    Plant(
        name="open calls are passed over",
        shows=("succeeded_without", "double_effect", "open_key"),
        without="intended without observation is reconciled first",
        breaks=ends_without_settling,
        mix=LOSSY,
    ),
)
