import json
import os
import pty
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from tests.acceptance.cli_process import TREADLE, Done, treadle

pytestmark = pytest.mark.timeout(180)


def effects(place: Path) -> list[dict[str, object]]:
    lines = (place / "payments.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def run_demo(*arguments: str, cwd: Path) -> Done:
    return treadle("demo", *arguments, cwd=cwd, timeout_s=90)


def test_the_demo_refunds_once_and_tells_the_story(tmp_path: Path) -> None:
    done = run_demo("--yes", cwd=tmp_path)
    assert done.code == 0, done.out + done.err
    place = tmp_path / ".treadle" / "demo"
    kinds = [effect["kind"] for effect in effects(place)]
    assert sorted(map(str, kinds)) == ["notification", "refund"]
    for part in (
        "step 1  lookup_order",
        "step 4  issue_refund",
        "1,260",
        "5,335",
        "POL-REF-004",
        "support-lead",
        "refund:order-8472:pay_5a2:v1",
        "SUCCEEDED",
        str(Path(".treadle") / "demo"),
        "try next",
    ):
        assert part in done.out, part
    assert not (place / "connection.json").exists()


def test_what_the_demo_recorded_can_be_read_afterwards(tmp_path: Path) -> None:
    done = run_demo("-o", "json", cwd=tmp_path)
    assert done.code == 0, done.out + done.err
    assert (done.json["status"], done.json["refunds"]) == ("SUCCEEDED", 1)
    here = ("--data-dir", done.json["data_dir"], "-o", "json")
    run_id = done.json["run_id"]
    shown = treadle("show", run_id, *here, cwd=tmp_path)
    assert (shown.json["status"], shown.json["step_count"] > 4) == ("SUCCEEDED", True)
    assert "no daemon runs" in shown.err
    at = treadle("show", run_id, "--at", "3", *here, cwd=tmp_path).json
    assert (at["step_count"], at["usage"]["tokens"]) == (3, 5335)
    listed = treadle("ls", "--status", "SUCCEEDED", *here, cwd=tmp_path).json["runs"]
    assert [run["run_id"] for run in listed] == [run_id]
    keys = [row["key"] for row in treadle("effects", *here, cwd=tmp_path).json["effects"]]
    assert "refund:order-8472:pay_5a2:v1" in keys
    chain = treadle("effects", "show", keys[0], *here, cwd=tmp_path).json
    assert chain["record"]["state"] == "done"
    events = treadle("watch", run_id, *here, cwd=tmp_path).json["events"]
    assert events[-1]["kind"] == "finished"


def test_a_second_demo_keeps_the_data_of_the_first(tmp_path: Path) -> None:
    place = tmp_path / "mine"
    first = run_demo("--data-dir", str(place), "-o", "json", cwd=tmp_path)
    second = run_demo("--data-dir", str(place), cwd=tmp_path)
    assert (first.code, second.code) == (0, 0), second.out + second.err
    assert str(tmp_path / "mine-1") in second.out
    shown = treadle("show", first.json["run_id"], "--data-dir", "mine-1", cwd=tmp_path)
    assert shown.code == 0
    assert len(effects(place)) == 2


def test_the_demo_touches_no_folder_that_it_did_not_make(tmp_path: Path) -> None:
    place = tmp_path / "mine"
    place.mkdir()
    (place / "note.txt").write_text("keep me")
    done = run_demo("--data-dir", str(place), cwd=tmp_path)
    assert done.code == 2
    assert [path.name for path in place.iterdir()] == ["note.txt"]


def test_the_demo_is_embedded(tmp_path: Path) -> None:
    assert run_demo("--nats", "nats://127.0.0.1:4222", cwd=tmp_path).code == 2


def at_a_terminal(answer: str, *, cwd: Path) -> tuple[int, str]:
    """Run the demo with somebody at a terminal who answers its one question."""
    ours, theirs = pty.openpty()
    demo = subprocess.Popen([TREADLE, "demo"], cwd=cwd, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    seen = b""
    while b"[y/N]" not in seen:
        seen += os.read(ours, 4096)
    os.write(ours, answer.encode() + b"\n")
    try:
        while part := os.read(ours, 4096):
            seen += part
    except OSError:  # the terminal of a process that has ended
        pass
    os.close(ours)
    return demo.wait(60), seen.decode()


def test_at_a_terminal_the_demo_asks(tmp_path: Path) -> None:
    code, seen = at_a_terminal("y", cwd=tmp_path)
    assert code == 0, seen
    shown, _, _ = seen.partition("[y/N]")
    for part in ("issue_refund", "amount_inr", "2000", "refund.auto_inr = 1000"):
        assert part in shown
    assert len(effects(tmp_path / ".treadle" / "demo")) == 2


def test_a_no_refunds_nothing(tmp_path: Path) -> None:
    code, seen = at_a_terminal("n", cwd=tmp_path)
    assert code == 1, seen
    assert effects(tmp_path / ".treadle" / "demo") == []


def test_the_demo_leaves_no_process_behind(tmp_path: Path) -> None:
    place = tmp_path / "mine"
    assert run_demo("--data-dir", str(place), cwd=tmp_path).code == 0
    assert [line for line in command_lines() if str(place) in line] == []


def command_lines() -> list[str]:
    """What runs on this machine; not every image has ps, not every system /proc."""
    if (ps := shutil.which("ps")) is not None:
        done = subprocess.run([ps, "-eo", "args"], capture_output=True, text=True, check=True)
        return done.stdout.splitlines()
    lines: list[str] = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has ended since
            lines.append(file.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return lines
