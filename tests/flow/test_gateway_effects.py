"""What a person says about an effect of unknown outcome, and what follows from it."""

from typing import Any

import pytest
from msgspec.structs import replace

from messages.authority import Verdict
from messages.events import Accepted, AnyEvent, Authorised, Finished, Intended
from messages.ledger import Claim, Claimed, EffectResolved, ResolveEffect, Settle
from messages.parts import Action
from messages.status import Reason, Status
from runtime.settings import Person, Principal, Settings, Tenant
from tests import journals
from tests.flow.gateway_world import World, world
from tests.journals import GRANT, HASH, KEY, RUN

RESULT = {"refund_id": "rf-1"}


ANN = Person(tenant="default")
OTHER = "refund:order-8472:pay_5a3:v1"


def refund(ordinal: int, key: str) -> Action:
    return replace(journals.refund_action(), ordinal=ordinal, key=key)


def started(*keys: str, settle_after_s: float = 0.0) -> tuple[AnyEvent, ...]:
    """A turn of writes that may start; nothing of them is under way any more after so long."""
    decided = journals.decided(2, "issue_refund", journals.ARGUMENTS, 1705)
    blocks = [{**decided.content[0], "id": f"toolu_{n}"} for n in range(len(keys))]
    places = range(len(keys))
    return (
        replace(decided, content=tuple(blocks)),
        Accepted(step=2, actions=tuple(refund(n, keys[n]) for n in places)),
        Authorised(
            step=2,
            verdicts=tuple(Verdict(ordinal=n, decision="allow", rule="over_limit") for n in places),
            policy="p12",
            grant=GRANT,
        ),
        *(
            Intended(
                step=2,
                ordinal=n,
                tool="issue_refund",
                key=keys[n],
                action_hash=HASH,
                grant_id=GRANT.id,
                effect="blind",
                settle_after_s=settle_after_s,
            )
            for n in places
        ),
    )


async def flagged(
    here: World,
    *keys: str,
    reason: Reason = Reason.UNKNOWN_EFFECT,
    settle_after_s: float = 0.0,
) -> None:
    """A run that ended with these refunds started and not settled."""
    keys = keys or (KEY,)
    await here.api("submitter", "submit", agent="refund", goal="settle it", run_id=RUN)
    writes = started(*keys, settle_after_s=settle_after_s)
    await here.grow(RUN, journals.journal()[1].events, writes)
    for key in keys:
        claim = Claim(
            tenant="default",
            run_id=RUN,
            key=key,
            grant_id=GRANT.id,
            claim_id=f"clm-{key}",
            expires_at=GRANT.expires_at + 1e9,
        )
        [answer] = await here.ledger.apply([claim])
        assert isinstance(answer, Claimed), answer
    await here.grow(RUN, (Finished(status=Status.FAILED, reason=reason),))


async def effect(here: World) -> dict[str, Any]:
    [row] = (await here.api("operator", "effects", key=KEY))["effects"]
    return row


async def unresolved(here: World) -> list[str]:
    return [e["key"] for e in (await here.api("operator", "effects", unresolved=True))["effects"]]


async def resolve(here: World, principal: str = "operator", **body: Any) -> Any:
    return await here.api(principal, "effect_resolve", **{"key": KEY, **body})


async def test_what_happened_is_recorded_and_the_work_goes_on() -> None:
    async with world() as here:
        await flagged(here)
        assert await unresolved(here) == [KEY]
        said = await resolve(here, finding="happened", result=RESULT, reason="the bank said so")
        assert (said["effect"]["state"], said["effect"]["resolved_by"]) == ("done", "operator")
        assert await unresolved(here) == []
        shown = await effect(here)
        evidence = shown["record"]["evidence"]
        assert (evidence["payload"], evidence["source"]) == (RESULT, "person:operator")
        assert shown["resolved_why"] == "the bank said so"
        linked = await here.api("operator", "show", run_id=said["run_id"])
        assert (linked["continues"], linked["principal"]) == (RUN, "submitter")
        told = linked["inputs"]["continued"]
        assert told["run_id"] == RUN
        assert told["effects"] == [{"key": KEY, "tool": "issue_refund", "finding": "happened"}]
        ended = await here.api("operator", "show", run_id=RUN)
        assert ended["status"] == "FAILED", "terminal is final"


async def test_what_may_still_arrive_cannot_be_called_absent_yet() -> None:
    """A write goes on after its run was cancelled: "not there" says nothing before W is over."""
    async with world() as here:
        await flagged(here, settle_after_s=3600.0)
        refused = await resolve(here, finding="absent")
        assert refused["error"]["code"] == "TOO_EARLY"
        assert "may still arrive: look again in 3600 s" in refused["error"]["message"]
        assert await unresolved(here) == [KEY]
        said = await resolve(here, finding="happened", result=RESULT)
        assert said["effect"]["state"] == "done"


async def test_what_did_not_happen_is_free_again() -> None:
    async with world() as here:
        await flagged(here)
        said = await resolve(here, finding="absent")
        assert (said["effect"]["state"], said["effect"]["is_flagged"]) == ("free", False)
        linked = await here.api("operator", "show", run_id=said["run_id"])
        [told] = linked["inputs"]["continued"]["effects"]
        assert told["finding"] == "did not happen"


async def test_saying_it_again_is_answered_the_same_and_continues_once() -> None:
    async with world() as here:
        await flagged(here)
        first = await resolve(here, finding="happened", result=RESULT)
        again = await resolve(here, finding="happened", result={"refund_id": "other"})
        assert again == first
        assert (await effect(here))["record"]["evidence"]["payload"] == RESULT
        runs = (await here.api("operator", "list"))["runs"]
        assert len([run for run in runs if run["run_id"] != RUN]) == 1


async def test_another_operator_finishes_what_a_crash_cut_in_two() -> None:
    """The finding is durable and its linked run is not: the gateway died in between."""
    async with world(settings=Settings(people={"ann": ANN})) as here:
        await flagged(here)
        found = ResolveEffect(tenant="default", key=KEY, finding="absent", person="operator")
        [answer] = await here.ledger.apply([found])
        assert isinstance(answer, EffectResolved)
        said = await resolve(here, "ann", finding="absent")
        assert (said["effect"]["resolved_by"], said["effect"]["state"]) == ("operator", "free")
        assert (await here.api("operator", "show", run_id=said["run_id"]))["continues"] == RUN


async def test_the_first_finding_stands() -> None:
    async with world() as here:
        await flagged(here)
        await resolve(here, finding="happened", result=RESULT)
        refused = await resolve(here, finding="absent")
        assert refused["error"]["code"] == "NOT_UNKNOWN"
        assert "as operator found out" in refused["error"]["message"]
        assert (await effect(here))["state"] == "done"


async def test_the_work_goes_on_once_all_of_it_is_known() -> None:
    async with world() as here:
        await flagged(here, KEY, OTHER)
        first = await resolve(here, finding="happened", result=RESULT)
        assert first["run_id"] is None, "one of its effects is still unknown"
        second = await resolve(here, key=OTHER, finding="absent")
        linked = await here.api("operator", "show", run_id=second["run_id"])
        told = {e["key"]: e["finding"] for e in linked["inputs"]["continued"]["effects"]}
        assert told == {KEY: "happened", OTHER: "did not happen"}


async def test_another_runs_attempt_is_not_settled_by_what_was_seen_of_the_first() -> None:
    async with world() as here:
        await flagged(here)
        refused = await resolve(here, run_id="run-before", finding="absent")
        assert refused["error"]["code"] == "NOT_HELD"
        assert await unresolved(here) == [KEY]
        assert (await resolve(here, run_id=RUN, finding="absent"))["effect"]["state"] == "free"


async def test_what_settled_itself_late_lets_the_work_go_on() -> None:
    async with world() as here:
        await flagged(here)
        late = Settle(
            tenant="default",
            run_id=RUN,
            key=KEY,
            grant_id=GRANT.id,
            claim_id=f"clm-{KEY}",
            outcome="ok",
            evidence=journals.REFUND,
        )
        await here.ledger.apply([late])
        assert await unresolved(here) == []
        assert (await resolve(here, finding="absent"))["error"]["code"] == "NOT_UNKNOWN"
        said = await resolve(here, finding="happened", result=RESULT)
        assert said["run_id"] is not None
        assert (await effect(here))["record"]["evidence"]["payload"] == journals.REFUND.payload


async def test_a_run_that_has_done_what_another_would_do_again_is_not_continued() -> None:
    """The key of an each_call write holds its run: in another run it is another effect."""
    own = f"call:{RUN}:2.0:issue_refund:abc"
    async with world() as here:
        await flagged(here, own)
        said = await resolve(here, key=own, finding="happened", result=RESULT)
        assert (said["effect"]["state"], said["run_id"]) == ("done", None)
        assert "do again" in said["problem"]
        assert (await here.api("operator", "list"))["runs"] == []


async def test_what_was_found_out_is_kept_when_the_work_cannot_go_on() -> None:
    tenants = {"default": Tenant(principals={"submitter": Principal()}, scopes=("orders:read",))}
    async with world(settings=Settings(tenants=tenants, people={"ann": ANN})) as here:
        await flagged(here)
        tenants["default"].principals.clear()
        said = await resolve(here, "ann", finding="absent")
        assert (said["effect"]["state"], said["run_id"]) == ("free", None)
        assert said["problem"]


async def test_a_run_that_ended_for_another_reason_is_not_continued() -> None:
    async with world() as here:
        await flagged(here, reason=Reason.POISON)
        assert (await resolve(here, finding="absent"))["run_id"] is None
        assert [run["run_id"] for run in (await here.api("operator", "list"))["runs"]] == []


@pytest.mark.parametrize("principal", ["submitter", "approver"])
async def test_it_is_for_operators(principal: str) -> None:
    async with world() as here:
        await flagged(here)
        refused = await resolve(here, principal, finding="absent")
        assert refused["error"]["code"] == "NOT_ALLOWED"
        assert await unresolved(here) == [KEY]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"finding": "absent", "result": RESULT}, "USAGE"),
        ({"finding": "perhaps"}, "USAGE"),
        ({"finding": "absent", "key": "refund:nobody:v1"}, "NOT_FOUND"),
        ({"finding": "happened", "result": RESULT, "extra": 1}, "USAGE"),
    ],
)
async def test_bad_input_changes_nothing(body: dict[str, Any], code: str) -> None:
    async with world() as here:
        await flagged(here)
        assert (await resolve(here, **body))["error"]["code"] == code
        assert await unresolved(here) == [KEY]


async def test_another_tenants_effect_is_not_there() -> None:
    async with world() as here:
        await flagged(here)
        body = {"key": KEY, "finding": "absent"}
        refused = await here.api("operator", "effect_resolve", tenant="acme", **body)
        assert refused["error"]["code"] == "NOT_FOUND"


async def test_a_result_too_large_for_the_journal_is_kept_apart() -> None:
    async with world() as here:
        await flagged(here)
        await resolve(here, finding="happened", result="x" * 200_000)
        evidence = (await effect(here))["record"]["evidence"]
        assert "ref" in evidence
