"""A suite played by the real roles on a data directory's ledger."""

import contextlib
from collections.abc import Mapping
from pathlib import Path

import anyio
import pytest

from messages.errors import AlreadyRunning, DeadlineExceeded
from messages.ledger import Create, Hold, HoldRow, Tally
from messages.status import Status
from runtime.clock import MachineClock
from runtime.ledger.sqlite import SqliteLedger
from runtime.loop.summary import summarise
from runtime.views.metrics import nine_figures
from tests import journals
from tests.acceptance.seeds_table import FIGURES
from treadle.evaluation.reading import load_suite, suite_of
from treadle.evaluation.stage import evaluation
from treadle.evaluation.suite import Suite
from treadle.offline import open_data

pytestmark = pytest.mark.timeout(60)

PATIENCE_S = 30.0
LOOP_DETECTION = load_suite("loop_detection")


def small(**configurations: object) -> Suite:
    return suite_of(
        {
            "name": "small",
            "configurations": configurations or {"a": {}},
            "tools": {"look": {"description": "Look.", "results": [{"returns": 1}]}},
            "tasks": [{"name": "t", "turns": [{"call": "look", "repeat": 3}, {"finish": "x"}]}],
        },
        "small.toml",
    )


async def play(suite: Suite, data_dir: Path, timeout_s: float = PATIENCE_S) -> Mapping[str, Tally]:
    async with evaluation(suite, data_dir) as playing:
        return await playing.play(timeout_s)


async def statuses(data_dir: Path, **labels: str) -> list[str]:
    async with open_data(data_dir) as offline:
        listed = await offline.list(labels=labels, ended=True, limit=500)
        return [run["status"] for run in listed["runs"]]


async def test_the_table_of_the_source_is_reproduced(data_dir: Path) -> None:
    tallies = await play(LOOP_DETECTION, data_dir)
    assert {name: nine_figures(tally) for name, tally in tallies.items()} == FIGURES
    assert tallies["on"].flagged == 5
    on = await statuses(data_dir, eval="loop_detection", configuration="on")
    assert (on.count("SUCCEEDED"), on.count("NO_PROGRESS")) == (15, 5)
    async with open_data(data_dir) as offline:
        stored = await offline.metrics(labels={"configuration": "off"})
    assert {name: stored[name] for name in nine_figures(Tally())} == nine_figures(tallies["off"])


async def test_each_evaluation_counts_its_own_runs(data_dir: Path) -> None:
    for _ in range(2):
        assert (await play(small(), data_dir))["a"].runs == 1
    assert len(await statuses(data_dir, eval="small", task="t")) == 2


async def test_a_configuration_may_have_a_budget(data_dir: Path) -> None:
    [tally] = (await play(small(a={"budget": {"max_steps": 2}}), data_dir)).values()
    assert (tally.ended(Status.BUDGET_EXHAUSTED), tally.runs) == (1, 1)


async def test_open_runs_of_others_are_left_alone(data_dir: Path) -> None:
    clock = MachineClock()
    first = journals.journal()[0]
    other = Create(
        tenant="default",
        run_id="other",
        append_id="apd-0",
        events=first.events,
        summary=summarise(journals.state_at(0)),
    )
    ledger = await SqliteLedger.open(data_dir / "ledger.db", clock.now)
    await ledger.apply([other])
    await ledger.close()
    await play(small(), data_dir)
    async with open_data(data_dir) as offline:
        run = await offline.show("other")
    assert (run["status"], run["version"]) == ("QUEUED", 0)


async def test_what_does_not_end_in_time_is_cancelled(data_dir: Path) -> None:
    await pause_everything(data_dir)
    with pytest.raises(DeadlineExceeded, match="1 of 1 runs had not ended after"):
        await play(small(), data_dir, timeout_s=0.5)
    assert await statuses(data_dir, eval="small") == ["CANCELLED"]


async def test_what_was_not_even_submitted_is_late_too(data_dir: Path) -> None:
    with pytest.raises(DeadlineExceeded, match="40 of 40 runs"):
        await play(LOOP_DETECTION, data_dir, timeout_s=0.0)
    assert await statuses(data_dir, eval="loop_detection") == []


@pytest.mark.parametrize("timeout_s", [0.02, 0.05, 0.1, 0.15])
async def test_wherever_it_is_cut_no_run_stays_open(data_dir: Path, timeout_s: float) -> None:
    with contextlib.suppress(DeadlineExceeded):
        await play(LOOP_DETECTION, data_dir, timeout_s=timeout_s)
    assert {"QUEUED", "RUNNING"}.isdisjoint(await statuses(data_dir, eval="loop_detection"))


async def test_who_interrupts_it_leaves_nothing_open(data_dir: Path) -> None:
    await pause_everything(data_dir)
    async with evaluation(small(), data_dir) as playing:
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(playing.play, PATIENCE_S)
                while not playing.open_runs:  # noqa: ASYNC110 -- what the ledger was told
                    await anyio.sleep(0.01)
                scope.cancel()
        assert playing.open_runs == 0
    assert await statuses(data_dir, eval="small") == ["CANCELLED"]


async def test_a_ledger_in_use_is_refused(data_dir: Path) -> None:
    ledger = await SqliteLedger.open(data_dir / "ledger.db", MachineClock().now)
    try:
        with pytest.raises(AlreadyRunning) as caught:
            await play(small(), data_dir)
        assert "stop the daemon" in caught.value.hint
    finally:
        await ledger.close()


async def pause_everything(data_dir: Path) -> None:
    ledger = await SqliteLedger.open(data_dir / "ledger.db", MachineClock().now)
    await ledger.apply([Hold(hold=HoldRow(tenant="default", agent="*"))])
    await ledger.close()
