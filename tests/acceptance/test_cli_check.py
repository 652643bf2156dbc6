from pathlib import Path

import pytest

from tests.acceptance.cli_process import treadle

GOOD = '''
from treadle import Agent, App, Ctx, Request, Ruling, allow, ask, read, write

@read
def find(ctx: Ctx[None], name: str) -> str:
    """Find a thing."""
    return name

@write(key="send:{name}:v1")
def send(ctx: Ctx[None], name: str) -> str:
    """Send a thing."""
    return name

@send.rule
def large(req: Request, name: str) -> Ruling:
    if len(name) > req.limit("send.auto_chars"):
        return ask("desk-lead", "long")
    return allow()

agent = Agent("helper", model="m", instructions="Help.", tools=[find, send])
app = App(agent)
'''
POLICY = '[limits."send.auto_chars"]\nvalue = 10\nsource = "HANDBOOK v1 2"\n'


@pytest.fixture
def good(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(GOOD)
    (tmp_path / "policy.toml").write_text(POLICY)
    return tmp_path


def test_a_good_app_is_fine(good: Path) -> None:
    done = treadle("check", "mine:app", "-o", "json", cwd=good)
    assert done.code == 0
    assert done.json["ok"] is True
    assert done.json["findings"] == []
    assert [agent["name"] for agent in done.json["agents"]] == ["helper"]


def test_the_example_is_fine(tmp_path: Path) -> None:
    done = treadle("check", "treadle.examples.refunds.app:app", cwd=tmp_path)
    assert (done.code, done.err) == (0, "")
    assert "is fine" in done.out


@pytest.mark.parametrize(
    ("old", "new", "code", "says"),
    [
        ("from treadle", "from treadel", "NO_SUCH_MODULE", "treadel"),
        ("App(agent)", "App(agent", "SYNTAX", "never closed"),
        ("App(agent)", "App(agnet)", "IMPORT", "agnet"),
        ("app = App(agent)", "application = App(agent)", "NO_SUCH_APP", "no 'app'"),
        ("app = App(agent)", "app = agent", "NOT_AN_APP", "not an App"),
        ("app = App(agent)", "raise SystemExit(3)", "IMPORT", "SystemExit"),
        ('    """Find a thing."""\n', "", "DECLARATION", "docstring"),
        ("ctx: Ctx[None], name: str) -> str:\n", "ctx: Ctx[None], name) -> str:\n", "DECLARATION",
         "name"),
        ('key="send:{name}:v1"', "", "DECLARATION", "key"),
        ('key="send:{name}:v1"', 'key="send:{nome}:v1"', "DECLARATION", "nome"),
        ("large(req: Request, name", "large(req: Request, nom", "DECLARATION", "name: str)"),
        ("send.auto_chars", "send.auto_char", "LIMIT", "send.auto_char"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(old: str, new: str, code: str, says: str, good: Path) -> None:
    assert old in GOOD
    (good / "mine.py").write_text(GOOD.replace(old, new, 1))
    done = treadle("check", "mine:app", "-o", "json", cwd=good)
    assert done.code == 8, done.err
    assert done.json["ok"] is False
    finding = done.json["findings"][0]
    assert finding["code"] == code
    assert says in finding["message"]
    assert set(finding) == {"code", "where", "message", "hint"}


def test_a_finding_says_where(good: Path) -> None:
    (good / "mine.py").write_text(GOOD.replace("App(agent)", "App(agnet)"))
    done = treadle("check", "mine:app", cwd=good)
    assert done.code == 8
    line = GOOD.splitlines().index("app = App(agent)") + 1
    assert f"mine.py:{line}: NameError" in done.out


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("policy.toml", "[limits", "policy.toml"),
        ("policy.toml", '[limits."send.auto_chars"]\nvalue = 10\n', "source"),
        ("policy.toml", POLICY + "[limit]\n", "limit"),
        ("treadle.toml", "[budgets]\nmax_step = 3\n", "max_step"),
        ("treadle.toml", "[groups.other]\nmembers = []\n", "desk-lead"),
    ],
)  # fmt: skip
def test_settings_and_policy_are_checked_too(
    name: str, content: str, says: str, good: Path
) -> None:
    (good / name).write_text(content)
    done = treadle("check", "mine:app", cwd=good)
    assert done.code == 8
    assert says in done.out


def test_two_problems_are_two_findings(good: Path) -> None:
    (good / "mine.py").write_text(GOOD.replace("app = App(agent)", "app = agent"))
    (good / "treadle.toml").write_text("[budgets]\nmax_step = 3\n")
    findings = treadle("check", "mine:app", "-o", "json", cwd=good).json["findings"]
    assert [finding["code"] for finding in findings] == ["NOT_AN_APP", "CONFIG"]


def test_up_refuses_a_broken_app_before_it_starts_anything(good: Path) -> None:
    (good / "mine.py").write_text(GOOD.replace('    """Find a thing."""\n', ""))
    done = treadle("up", "--app", "mine:app", "-o", "json", cwd=good)
    assert done.code == 2
    assert done.error["code"] == "DECLARATION"
    assert not (good / ".treadle" / "connection.json").exists()
