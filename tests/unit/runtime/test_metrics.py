"""Counting runs and the figures that are made of the counts."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messages.errors import UsageError
from messages.ledger import RunRow, RunsOfEnding, RunsOfSteps, Summary, Tally
from messages.parts import Usage
from messages.status import TERMINAL, Status
from runtime.tally import merge, merge_groups, tally
from runtime.views.metrics import NINE, all_figures, metrics_view, nine_figures, percentile
from runtime.views.values import month_of
from tests.acceptance.seeds_table import FIGURES


def row(status: Status = Status.SUCCEEDED, *, reason: str = "", **ran: object) -> RunRow:
    summary = Summary(agent="a", status=status, reason=reason, **ran)  # pyright: ignore[reportArgumentType] -- each test's own
    return RunRow(
        tenant="t",
        run_id="r",
        version=1,
        head_hash="",
        summary=summary,
        created_at=0.0,
        updated_at=1.0,
    )


def suite(*, is_detecting: bool) -> list[RunRow]:
    """The twenty runs of seeds/b: twelve plain, three with one tool error, five stuck."""
    stuck = (
        row(Status.NO_PROGRESS, reason="repeated_action", step_count=3, tool_calls=3, flags=2)
        if is_detecting
        else row(step_count=7, tool_calls=6)
    )
    plain = row(step_count=2, tool_calls=1)
    troubled = row(step_count=3, tool_calls=2, tool_errors=1)
    return [plain] * 12 + [troubled] * 3 + [stuck] * 5


def figures(rows: list[RunRow]) -> dict[str, object]:
    return nine_figures(merge(tally(rows)))


def test_the_table_of_the_source_comes_out() -> None:
    assert figures(suite(is_detecting=True)) == FIGURES["on"]
    off = figures(suite(is_detecting=False))
    assert [off[name] for name in ("completion_rate", "steps_p50", "steps_p95", "loop_rate")] == [
        1.0,
        2.0,
        7.0,
        0.0,
    ]


def test_there_are_nine_and_a_share_of_nothing_is_null() -> None:
    none = figures([])
    assert tuple(none) == NINE
    assert none == {**dict.fromkeys(NINE), "runs": 0}


def test_recovery_is_of_the_runs_with_an_error() -> None:
    rows = [row(tool_errors=2), row(Status.FAILED, tool_errors=1), row(), row()]
    assert figures(rows)["recovery_rate"] == 0.5
    assert figures([row(), row(Status.FAILED)])["recovery_rate"] is None


def test_a_run_that_is_open_counts_in_no_share() -> None:
    rows = [row(cost_microusd=10), row(Status.RUNNING, cost_microusd=5, tool_errors=1)]
    view = all_figures(merge(tally(rows)))
    assert (view["runs"], view["completion_rate"], view["recovery_rate"]) == (1, 1.0, None)
    assert (view["usd"], view["open_runs"], view["open_usd"]) == ("0.00001", 1, "0.000005")


def test_what_children_spent_is_counted_with_them() -> None:
    parent = row(cost_microusd=100, children_microusd=60)
    view = all_figures(merge(tally([parent, row(cost_microusd=60)])))
    assert (view["usd"], view["mean_usd"]) == ("0.0001", "0.00005")


@pytest.mark.parametrize(
    ("costs", "mean"), [((1,), "0.000001"), ((1, 2), "0.000002"), ((1, 1, 2), "0.000001")]
)
def test_a_mean_is_in_whole_micro_usd(costs: tuple[int, ...], mean: str) -> None:
    assert figures([row(cost_microusd=cost) for cost in costs])["mean_usd"] == mean


def test_a_completed_task_pays_for_the_failed_ones() -> None:
    rows = [row(cost_microusd=100), row(Status.FAILED, cost_microusd=50)]
    assert all_figures(merge(tally(rows)))["usd_per_completed"] == "0.00015"
    assert all_figures(merge(tally(rows[1:])))["usd_per_completed"] is None


def test_the_cache_ratio_is_of_the_prompt() -> None:
    usage = Usage(input_tokens=10, output_tokens=99, cache_read_tokens=25, cache_write_tokens=15)
    assert all_figures(merge(tally([row(usage=usage)])))["cache_hit_ratio"] == 0.5


def test_the_rest_are_sums_and_the_ways_to_end() -> None:
    rows = [
        row(Status.BUDGET_EXHAUSTED, reason="max_steps", step_count=3, active_s=1.5, flags=1),
        row(reason="verified", step_count=1, active_s=0.5, model_calls=2, model_s=0.25),
        row(reason="verified"),
    ]
    view = all_figures(merge(tally(rows)))
    assert view["exits"] == [
        {"status": "BUDGET_EXHAUSTED", "reason": "max_steps", "runs": 1},
        {"status": "SUCCEEDED", "reason": "verified", "runs": 2},
    ]
    assert (view["steps_mean"], view["step_seconds_mean"]) == (1.333, 0.5)
    assert (view["model_calls"], view["model_seconds"]) == (2, 0.25)
    assert (view["budget_stop_rate"], view["flagged_rate"]) == (0.333, 0.333)


def test_groups_are_named_and_sorted() -> None:
    rows = [row(models=("m2", "m1")), row(models=("m1",)), row()]
    tallies = merge_groups(tally(rows, ("agent", "model")))
    view = metrics_view(tallies, ("agent", "model"), since=0.0, until=None)
    assert [(group["agent"], group["model"]) for group in view["groups"]] == [
        ("a", ""),
        ("a", "m1"),
        ("a", "m2 + m1"),
    ]
    assert (view["runs"], view["since"], view["until"]) == (3, "1970-01-01T00:00:00.000Z", None)


def test_without_groups_there_is_one_set_of_figures() -> None:
    assert metrics_view(tally([row()]), (), since=None, until=None)["groups"] == []


@given(st.lists(st.integers(0, 30), min_size=1, max_size=60), st.integers(1, 100))
def test_a_percentile_is_the_nearest_rank(steps: list[int], percent: int) -> None:
    counted = merge(tally([row(step_count=count) for count in steps])).steps
    rank = math.ceil(percent * len(steps) / 100)
    assert percentile(counted, percent) == sorted(steps)[rank - 1]


rows_of_runs = st.builds(
    row,
    st.sampled_from(sorted(TERMINAL | {Status.RUNNING})),
    reason=st.sampled_from(["", "x"]),
    step_count=st.integers(0, 4),
    tool_errors=st.integers(0, 2),
    cost_microusd=st.integers(0, 9),
    models=st.sampled_from([(), ("m",)]),
)


@given(st.lists(st.lists(rows_of_runs, max_size=5), max_size=5))
def test_it_does_not_matter_how_runs_are_cut_into_pages(pages: list[list[RunRow]]) -> None:
    by = ("model",)
    rows = [each for page in pages for each in page]
    cut = merge_groups(each for page in pages for each in tally(page, by))
    assert cut == merge_groups(tally(rows, by))
    assert merge(cut).runs + merge(cut).open_runs == len(rows)


@given(st.lists(rows_of_runs, min_size=1, max_size=20))
def test_shares_lie_between_none_and_all(rows: list[RunRow]) -> None:
    view = figures(rows)
    for name in ("completion_rate", "loop_rate", "budget_stop_rate", "recovery_rate"):
        share = view[name]
        assert share is None or (isinstance(share, float) and 0.0 <= share <= 1.0)


def test_a_tally_tells_its_runs_by_how_they_ended() -> None:
    ending = RunsOfEnding(status=Status.FAILED, reason="x", runs=2)
    counted = Tally(endings=(ending,), steps=(RunsOfSteps(steps=1, runs=2),))
    assert (counted.runs, counted.ended(Status.FAILED)) == (2, 2)
    assert counted.ended(Status.SUCCEEDED) == 0


def test_a_month_is_whole() -> None:
    begin, end = month_of("2026-02")
    assert (end - begin) / 86_400 == 28
    assert month_of("2026-12")[1] == month_of("2027-01")[0]


@pytest.mark.parametrize(
    "text", ["2026-13", "2026-00", "2026-2", "0000-01", "26-02", "", "2026-02 "]
)
def test_what_is_no_month_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="no month"):
        month_of(text)
