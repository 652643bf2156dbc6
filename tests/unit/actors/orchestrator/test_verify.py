"""Lookups before success: what was found is kept although an executor was away for another one."""

from typing import Any

import pytest
from msgspec.structs import replace

from actors.orchestrator.hand import Hand
from actors.orchestrator.verify import verify
from messages import events as e
from messages import execution
from messages.authority import Authorisation, Authorise, Grant
from messages.errors import NoResponders, RemoteFailure
from runtime.asking import GiveUp
from runtime.clock import FakeClock, FixedIds
from runtime.loop import directives as d
from runtime.settings import Runtime
from tests.unit.actors.orchestrator.test_pen import Ledger, pen_of
from tests.unit.runtime.loop.tales import (
    GRANT,
    SPEC,
    allowed,
    assessed,
    evidence,
    intended,
    observed,
)

KEYS = ("mail:x0", "mail:x1", "mail:x2")


class Roles(Ledger):
    """The authoriser grants; the executor finds what is there, and is away for one key."""

    def __init__(self, away: str = "") -> None:
        super().__init__()
        self.away = away
        self.granted: list[Authorise] = []
        self.lookups: list[execution.Reconcile] = []

    async def again(self, request: Any, *, deadline_s: float | None = None) -> Any:
        if isinstance(request, Authorise):
            self.granted.append(request)
            return Authorisation(verdicts=(), policy="p1", grant=_grant(request.step))
        assert isinstance(request, execution.Reconcile)
        assert deadline_s is not None
        self.lookups.append(request)
        if request.action.key == self.away:
            raise GiveUp("executor", NoResponders("executor"))
        state = assessed(observed(allowed("look")))
        return execution.Finding(kind="happened", evidence=evidence(state))


def _grant(step: int) -> Grant:
    return replace(GRANT, step=step)


def hand_of(roles: Roles) -> Hand:
    state = allowed("mail", "mail", "mail")
    for ordinal in range(3):
        state = observed(intended(state, ordinal), ordinal)
    pen, _ = pen_of(assessed(state), roles)
    return Hand(
        pen=pen,
        agent=SPEC,
        asking=roles,
        reporter=None,  # pyright: ignore[reportArgumentType] - nothing is committed here
        clock=FakeClock(),
        ids=FixedIds(),
        times=Runtime(),
        process="p1",
    )


def noted(hand: Hand) -> list[str]:
    return [event.key for event in hand.pen.buffered if isinstance(event, e.Verified)]


async def test_each_is_asked_with_its_own_action_under_a_grant_to_look_only() -> None:
    roles = Roles()
    hand = hand_of(roles)
    assert await verify(hand, d.Verify(keys=KEYS))
    assert noted(hand) == list(KEYS)
    assert {request.purpose for request in roles.granted} == {"lookup"}
    for request in roles.lookups:
        effect = next(o for o in hand.pen.state.outstanding if o.key == request.action.key)
        assert request.action.arguments == effect.arguments
        assert (request.action.action_hash, request.step) == (effect.action_hash, effect.step)


async def test_what_was_found_is_kept_where_an_executor_is_away_for_another() -> None:
    """The run goes back to the ledger with what is known, as in every step, and not as broken."""
    roles = Roles(away="mail:x1")
    hand = hand_of(roles)
    with pytest.raises(GiveUp):
        await verify(hand, d.Verify(keys=KEYS))
    assert noted(hand) == ["mail:x0", "mail:x2"]


async def test_an_authoriser_that_knows_the_tool_no_longer_leaves_it_undecided() -> None:
    """As during a rollout: that is no reason to lose a run whose work is done."""

    class Gone(Roles):
        async def again(self, request: Any, *, deadline_s: float | None = None) -> Any:
            if isinstance(request, Authorise):
                raise RemoteFailure("NOT_FOUND", "there is no tool mail")
            return await super().again(request, deadline_s=deadline_s)

    hand = hand_of(Gone())
    assert await verify(hand, d.Verify(keys=KEYS))
    assert [o.verification for o in hand.pen.state.outstanding] == ["undecidable"] * 3


async def test_many_findings_make_entries_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them in the one entry that ends the run would not fit the broker's limit."""
    monkeypatch.setattr("actors.orchestrator.verify.MAX_TOGETHER", 2)
    hand = hand_of(Roles())
    committed: list[list[str]] = []

    async def commit() -> None:
        committed.append(noted(hand))

    monkeypatch.setattr(hand, "commit", commit)
    assert await verify(hand, d.Verify(keys=KEYS))
    assert committed == [["mail:x0", "mail:x1"]]
    assert noted(hand) == list(KEYS)
