"""What TREADLE_FAULTS may say, and that a fault fires once and leaves word before it does."""

import json
import signal
from pathlib import Path

import pytest

from messages.errors import ConfigError
from runtime.clock import FakeClock
from runtime.faults import fault
from treadle.faults import VARIABLE, Fault, arm_from, faults_of

MARK = Path("trial/a")


def test_what_the_variable_says() -> None:
    assert faults_of("") == ()
    text = "executor.after_effect=kill:trial/a, orchestrator.after_append=stop@3:trial/a,"
    assert faults_of(text) == (
        Fault(point="executor.after_effect", action="kill", count=1, marker=MARK),
        Fault(point="orchestrator.after_append", action="stop", count=3, marker=MARK),
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("executor.after_efect=kill:trial/a", "no fault point 'executor.after_efect'"),
        ("executor.after_effect=die:trial/a", "no action 'die'; there are: kill, stop, term, note"),
        ("executor.after_effect", "no action ''"),
        ("executor.after_effect=kill", "POINT=ACTION"),
        ("executor.after_effect=kill@:trial/a", "POINT=ACTION"),
        ("executor.after_effect=kill@0:trial/a", "POINT=ACTION"),
        ("executor.after_effect=kill@x:trial/a", "POINT=ACTION"),
    ],
)
def test_a_wrong_name_is_refused_by_name(text: str, says: str) -> None:
    with pytest.raises(ConfigError, match=VARIABLE) as refused:
        faults_of(text)
    assert says in str(refused.value)


def test_the_nearest_point_is_named() -> None:
    with pytest.raises(ConfigError) as refused:
        faults_of("executor.after_efect=kill:trial/a")
    assert "executor.after_effect" in refused.value.hint


@pytest.fixture
def raised(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, bool]]:
    """The signals that would have been raised, and whether the marker was there by then."""
    monkeypatch.setattr("runtime.faults._hooks", [])
    return []


def test_a_fault_fires_the_nth_time_and_once_for_all_processes(
    raised: list[tuple[int, bool]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    marker = tmp_path / "fired"

    def note(signum: int) -> None:
        raised.append((signum, marker.exists()))

    monkeypatch.setattr(signal, "raise_signal", note)
    environ = {VARIABLE: f"executor.after_claim=stop@2:{marker}"}
    arm_from(environ, FakeClock(5.0))
    fault("executor.after_claim")
    fault("executor.before_claim")
    assert raised == []
    fault("executor.after_claim")
    assert raised == [(signal.SIGSTOP, True)]
    said = json.loads(marker.read_bytes())
    assert (said["point"], said["at"]) == ("executor.after_claim", 5.0)
    arm_from(environ, FakeClock())  # the process is started again
    for _ in range(3):
        fault("executor.after_claim")
    assert len(raised) == 1


def test_a_fault_is_armed_once_its_folder_is_there(
    raised: list[tuple[int, bool]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    marker = tmp_path / "trial-1" / "fired"

    def note(signum: int) -> None:
        raised.append((signum, marker.exists()))

    monkeypatch.setattr(signal, "raise_signal", note)
    arm_from({VARIABLE: f"monitor.before_answer=term@2:{marker}"}, FakeClock())
    for _ in range(2):
        fault("monitor.before_answer")
    marker.parent.mkdir()
    fault("monitor.before_answer")
    assert raised == []
    fault("monitor.before_answer")
    assert raised == [(signal.SIGTERM, True)]
