"""Step 8, last half: before success, is what the journal calls done really there?"""

from actors.orchestrator.execute import light, side_by_side
from actors.orchestrator.hand import Hand
from actors.orchestrator.lookup import look_up
from messages import events as e
from messages import execution
from messages.errors import TreadleError
from messages.parts import Action, Problem
from messages.state import Outstanding
from runtime.asking import GiveUp
from runtime.loop import directives as d

MAX_TOGETHER = 32
"""Findings of one entry, which must fit the broker's limit; more make entries of their own."""


async def verify(hand: Hand, directive: d.Verify) -> bool:
    """Look executed writes up at once; what was found is noted even if some could not be asked.

    Raises:
        GiveUp: no executor answers for too long; the run goes back to the ledger.
    """
    done = {o.key: o for o in hand.pen.state.outstanding if o.status == "executed"}
    effects = [done[key] for key in directive.keys]
    found: dict[int, execution.Finding] = {}
    failures: list[GiveUp | TreadleError] = []

    async def one(place: int) -> None:
        effect = effects[place]
        evidence_id = f"vf-{effect.step}-{effect.ordinal}"  # seen by nobody but the record
        try:
            finding = await look_up(
                hand, _action(effect), step=effect.step, evidence_id=evidence_id
            )
        except (GiveUp, TreadleError) as error:
            failures.append(error)
        else:
            if finding is not None:
                found[place] = finding

    await side_by_side(one, list(range(len(effects))))
    for number, place in enumerate(sorted(found), 1):
        effect, finding = effects[place], found[place]
        hand.pen.add(
            e.Verified(
                step=effect.step,
                key=effect.key,
                is_there=finding.kind == "happened",
                evidence=await light(hand, finding.evidence, min(len(found), MAX_TOGETHER)),
                problem=_why(finding),
            )
        )
        if number % MAX_TOGETHER == 0:
            await hand.commit()
    if failures:
        raise failures[0]
    return True


def _action(effect: Outstanding) -> Action:
    """The action as it was granted when it ran."""
    return Action(
        ordinal=effect.ordinal,
        tool=effect.kind,
        arguments=effect.arguments,
        key=effect.key,
        action_hash=effect.action_hash,
    )


def _why(finding: execution.Finding) -> Problem | None:
    if finding.kind != "undecidable":
        return None
    return finding.problem or Problem(code="UNKNOWN", message="the lookup could not decide")
