"""Laws of the loop, over runs that chance answers (``loop_world``).

``World`` itself asserts at each event: only authorised calls run, each side effect has a key and an
intent, results have provenance, steps and spend stay within their limits, one result per call, and
nothing changes after the end.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from messages.agent import AgentSpec
from messages.canon import digest
from messages.codec import decode, encode
from messages.events import AnyEvent, Finished
from messages.ledger import Loaded, RunRow
from messages.status import Status
from runtime.loop.evolve import fold_entry
from runtime.loop.next import next_directive
from runtime.loop.summary import summarise
from runtime.loop.transitions import REASONS
from tests.unit.runtime.loop.loop_world import MOST_DIRECTIVES, World, folded, variants

SEEDS = st.integers(0, 2**32)
AGENTS = st.sampled_from(variants())


@given(SEEDS, AGENTS)
def test_every_run_ends_or_waits_by_name(seed: int, spec: AgentSpec) -> None:
    world = World(seed, spec=spec).play()
    status = world.state.status
    assert status.is_terminal or status.is_suspended
    assert len(world.directives) < MOST_DIRECTIVES
    if status.is_terminal:
        assert world.state.reason in REASONS[status]
        assert world.state.reservation is None


@given(SEEDS, AGENTS)
def test_a_journal_folded_again_gives_the_same_state_and_directives(
    seed: int, spec: AgentSpec
) -> None:
    world = World(seed, spec=spec).play()
    state = None
    for entry in world.journal:
        state = fold_entry(state, entry)
        moment = replace(world.moment(), at=entry.at)
        again = fold_entry(None, world.journal[0])
        for earlier in world.journal[1 : entry.version + 1]:
            again = fold_entry(again, earlier)
        assert again == state
        assert next_directive(again, spec, moment) == next_directive(state, spec, moment)
    assert state == world.state


@given(SEEDS, AGENTS)
def test_a_journal_survives_the_wire(seed: int, spec: AgentSpec) -> None:
    """As it is stored and read back: nothing in the fold hangs on what JSON does not keep."""
    world = World(seed, spec=spec).play()
    row = RunRow(
        tenant="t",
        run_id="r",
        version=world.state.version,
        head_hash="",
        summary=summarise(world.state),
        created_at=0.0,
        updated_at=0.0,
    )
    sent = Loaded(entries=tuple(world.journal), row=row, now=0.0)
    read = decode(encode(sent))
    assert isinstance(read, Loaded)
    assert folded(replace_journal(world, read)) == world.state


def replace_journal(world: World, read: Loaded) -> World:
    again = World(world.seed, spec=world.spec)
    again.journal = list(read.entries)
    return again


@given(SEEDS, AGENTS)
def test_the_end_is_one_event_and_the_last(seed: int, spec: AgentSpec) -> None:
    world = World(seed, spec=spec).play()
    events: list[AnyEvent] = [event for entry in world.journal for event in entry.events]
    ends = [place for place, event in enumerate(events) if isinstance(event, Finished)]
    assert ends in ([], [len(events) - 1])
    assert bool(ends) is world.state.status.is_terminal


@given(SEEDS, AGENTS)
def test_success_is_never_assumed(seed: int, spec: AgentSpec) -> None:
    """No key of a succeeded run is left in the air, or was looked up and not found."""
    world = World(seed, spec=spec).play()
    if world.state.status is not Status.SUCCEEDED:
        return
    assert {o.status for o in world.state.outstanding} <= {"executed", "verified", "dropped"}
    for effect in world.state.outstanding:
        tool = spec.tool(effect.kind)
        if effect.status == "executed" and tool is not None and tool.has_lookup:
            assert effect.verification in {"undecidable", "happened"}, "or found as it was settled"


@given(SEEDS, AGENTS)
def test_each_executed_write_with_a_lookup_is_looked_up_once(seed: int, spec: AgentSpec) -> None:
    world = World(seed, spec=spec).play()
    assert len(world.looked_up) == len(set(world.looked_up))
    assert all(key.startswith("mail:") for key in world.looked_up)


def test_chance_reaches_every_directive_and_most_endings() -> None:
    """The laws above say nothing about what never happens."""
    directives: set[str] = set()
    endings: set[str] = set()
    for seed in range(400):
        world = World(seed, spec=variants()[seed % len(variants())]).play()
        directives |= set(world.directives)
        endings.add(world.state.status.value)
    everything = (
        "Nothing LetGo Record Decide Validate Authorise Recheck RequestApproval Execute Reconcile"
        " Assess Judge Verify AskPerson Suspend Finish"
    )
    assert directives == set(everything.split())
    assert endings >= {"SUCCEEDED", "FAILED", "CANCELLED", "DENIED", "BUDGET_EXHAUSTED", "PAUSED"}


@pytest.mark.parametrize("hash_seed", ["1", "4711"])
def test_the_fold_does_not_hang_on_the_hash_seed(hash_seed: str) -> None:
    code = "from tests.unit.runtime.loop.test_laws import digests; print(' '.join(digests()))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(Path.cwd())},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == digests()


def digests() -> list[str]:
    """State and next directive of some journals, in canonical form."""
    found: list[str] = []
    for seed in range(12):
        world = World(seed, spec=variants()[seed % len(variants())]).play()
        state = folded(world)
        found.append(digest([state, repr(next_directive(state, world.spec, world.moment()))]))
    return found
