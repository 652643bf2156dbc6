import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from messages.errors import NoResponders
from runtime.clock import MachineClock
from runtime.views.values import iso
from tests.unit.treadle.cli.fakes import FakeDaemon, RunCli
from treadle.cli import session


def check(name: str, *, is_ok: bool = True) -> dict[str, Any]:
    return {"name": name, "ok": is_ok, "detail": "as it is", "hint": "" if is_ok else "mend it"}


@pytest.fixture
def well(daemon: FakeDaemon) -> FakeDaemon:
    daemon.replies["ping"] = {"v": 1, "at": iso(MachineClock().now())}
    daemon.replies["checkup"] = {"v": 1, "checks": [check("streams"), check("ledger")]}
    daemon.replies["actors"] = {"v": 1, "actors": [{"role": "planner"}]}
    return daemon


def test_all_is_well(cli: RunCli, well: FakeDaemon) -> None:
    result = cli("doctor", "-o", "json")
    assert result.code == 0
    names = [row["name"] for row in result.json["checks"]]
    assert names == ["nats", "gateway", "streams", "ledger", "own clock", "disk"]
    assert result.json["findings"] == []
    assert well.users == ["operator"]


def test_a_finding_is_8_and_says_what_to_do(cli: RunCli, well: FakeDaemon) -> None:
    well.replies["checkup"]["checks"] = [check("actors", is_ok=False)]
    result = cli("doctor")
    assert result.code == 8
    line = next(line for line in result.out.splitlines() if line.startswith("actors"))
    assert "NOT OK" in line
    assert "mend it" in line
    assert [row["name"] for row in cli("doctor", "-o", "json").json["findings"]] == ["actors"]


def test_a_clock_that_is_wrong(cli: RunCli, well: FakeDaemon) -> None:
    well.replies["ping"] = {"v": 1, "at": iso(MachineClock().now() - 60)}
    findings = cli("doctor", "-o", "json").json["findings"]
    assert [row["name"] for row in findings] == ["own clock"]


def test_a_full_disk(cli: RunCli, well: FakeDaemon, monkeypatch: pytest.MonkeyPatch) -> None:
    assert well.replies
    full = shutil.disk_usage("/")._replace(free=1)

    def usage(_path: object) -> object:
        return full

    monkeypatch.setattr(shutil, "disk_usage", usage)
    assert [row["name"] for row in cli("doctor", "-o", "json").json["findings"]] == ["disk"]


def test_a_gateway_that_does_not_answer(cli: RunCli, well: FakeDaemon) -> None:
    well.refusal = NoResponders("the daemon does not answer")
    actors = well.actors

    async def still_there() -> Any:
        well.refusal = None
        return await actors()

    well.actors = still_there
    result = cli("doctor")
    assert result.code == 8
    assert "answering: planner" in result.out


def test_without_a_daemon_the_ledger_is_checked(
    cli: RunCli, daemon: FakeDaemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon.is_down = True
    daemon.replies["ledger"] = check("ledger")

    @asynccontextmanager
    async def read_offline(*_: object) -> AsyncGenerator[FakeDaemon]:
        yield daemon

    monkeypatch.setattr(session, "read_offline", read_offline)
    result = cli("doctor", "--data-dir", str(tmp_path), "-o", "json")
    assert result.code == 8
    assert [row["name"] for row in result.json["findings"]] == ["nats"]
    assert [row["name"] for row in result.json["checks"]] == ["nats", "ledger", "disk"]


def test_actors_are_listed(cli: RunCli, daemon: FakeDaemon) -> None:
    row = {
        "role": "executor",
        "process": "conn-1",
        "pid": 12,
        "host": "h",
        "started_at": "2026-10-28T11:17:43.000Z",
        "running": 1,
        "pending": 0,
        "served": 7,
        "failed": 0,
        "tools": ["lookup_order"],
        "breakers": {"lookup_order": "open", "other": "closed"},
    }
    daemon.replies["actors"] = {"v": 1, "actors": [row]}
    assert cli("actors", "-o", "name").out == "executor\n"
    assert cli("actors").out.splitlines()[1].split()[:6] == ["executor", "12", "h", "1", "0", "7"]
    assert "lookup_order open" in cli("actors").out
    assert "closed" not in cli("actors").out
    daemon.replies["actors"] = {"v": 1, "actors": []}
    assert cli("actors").out == "no actor answers\n"
