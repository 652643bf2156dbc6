from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messages.errors import ConfigError
from runtime.config import Config, Flag, load, load_policy, read_secret, settings_files
from runtime.settings import Group, Limit, Person, Settings

FULL = """
[people.asha]
contact = "asha@example.org"
[people]
omar = {}

[groups.support-lead]
members = ["asha"]
max_size = 10000

[tenants.acme]
scopes = ["orders:read", "refunds:write"]
budgets = {max_usd = "5.00", max_steps = 10}
[tenants.acme.principals.web]
scopes = ["orders:read"]

[models.opus]
id = "claude-opus-5-5"

[nats]
port = 4222

[runtime]
lease_s = 7
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "treadle.toml"
    path.write_text(FULL)
    return path


def written(tmp_path: Path, text: str) -> list[Path]:
    path = tmp_path / "t.toml"
    path.write_text(text)
    return [path]


def fails(text: str, tmp_path: Path) -> ConfigError:
    with pytest.raises(ConfigError) as failed:
        load(written(tmp_path, text), environ={})
    return failed.value


def test_nothing_configured_is_the_defaults() -> None:
    assert load(environ={}) == Config(settings=Settings(), origins={})


def test_the_documented_defaults() -> None:
    times = Settings().runtime
    assert (times.lease_s, times.heartbeat_s, times.silence_s) == (5, 1, 3)
    assert (times.grant_s, times.skew_s, times.grace_s) == (20, 1, 25)
    assert (times.poison_deaths, times.slots) == (3, 64)


def test_every_section_is_read(file: Path) -> None:
    settings = load([file], environ={}).settings
    assert settings.people == {"asha": Person(contact="asha@example.org"), "omar": Person()}
    assert settings.groups == {"support-lead": Group(members=("asha",), max_size=10_000)}
    acme = settings.tenants["acme"]
    assert acme.principals["web"].scopes == ("orders:read",)
    assert (acme.budgets.max_usd, acme.budgets.max_steps) == ("5.00", 10)
    assert settings.models["opus"].id == "claude-opus-5-5"
    assert (settings.nats.port, settings.runtime.lease_s) == (4222, 7.0)


def test_flag_beats_env_beats_file_beats_default(file: Path) -> None:
    env = {"TREADLE_NATS__PORT": "5", "TREADLE_RUNTIME__SLOTS": "6", "TREADLE_NATS__URL": "e"}
    flags = [Flag("--nats", "nats.url", "nats://flag:1"), Flag("--http", "http.listen", None)]
    config = load([file], environ=env, flags=flags)
    settings = config.settings
    assert settings.nats.url == "nats://flag:1"
    assert (settings.nats.port, settings.runtime.slots) == (5, 6)
    assert (settings.runtime.lease_s, settings.runtime.grant_s) == (7, 20)
    origins = {key: origin for key, _, origin in config.rows()}
    assert origins["nats.url"] == "--nats"
    assert origins["nats.port"] == "TREADLE_NATS__PORT"
    assert origins["runtime.lease_s"] == str(file)
    assert origins["runtime.grant_s"] == origins["http.listen"] == "default"


def test_a_later_file_wins_leaf_by_leaf(file: Path, tmp_path: Path) -> None:
    later = written(tmp_path, "[groups.support-lead]\nmax_size = 5\n")
    settings = load([file, *later], environ={}).settings
    assert settings.groups["support-lead"] == Group(members=("asha",), max_size=5)
    assert settings.nats.port == 4222


def test_naming_an_empty_table_takes_nothing_away(file: Path, tmp_path: Path) -> None:
    later = written(tmp_path, "[people]\nasha = {}\n")
    assert load([file, *later], environ={}).settings.people["asha"].contact == "asha@example.org"


def test_a_variable_reaches_a_name_with_a_hyphen(file: Path) -> None:
    env = {
        "TREADLE_GROUPS__SUPPORT_LEAD__MAX_SIZE": "77",
        "TREADLE_GROUPS__SUPPORT_LEAD__MEMBERS": '["omar", "asha"]',
        "TREADLE_NOTIFY__LOG": "false",
    }
    settings = load([file], environ=env).settings
    assert settings.groups == {"support-lead": Group(members=("omar", "asha"), max_size=77)}
    assert settings.notify.log is False


def test_variables_without_a_section_are_not_ours() -> None:
    env = {"TREADLE_DATA_DIR": "x", "TREADLE_LOG": "json", "HOME": "/"}
    assert load(environ=env).settings == Settings()


@pytest.mark.parametrize(
    ("text", "where", "hint"),
    [
        ("[nats]\nurll = 'x'", "t.toml: nats.urll", "nats.url"),
        ("[nat]\nurl = 'x'", "t.toml: nat.url", "nats"),
        ("lease_s = 3", "t.toml: lease_s", "runtime.lease_s"),
        ("[groups.g]\nmember = []", "t.toml: groups.g.member", "groups.g.members"),
        ("[tenants.a.budgets]\nmax_step = 1", "tenants.a.budgets.max_step", "budgets.max_steps"),
    ],
)
def test_an_unknown_key_names_the_nearest(text: str, where: str, hint: str, tmp_path: Path) -> None:
    error = fails(text, tmp_path)
    assert where in error.message
    assert "unknown key" in error.message
    assert hint in error.hint


def test_an_unknown_variable_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match="TREADLE_NATS__PROT: unknown key") as failed:
        load(environ={"TREADLE_NATS__PROT": "1"})
    assert "nats.port" in failed.value.hint


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[nats]\nport = 'x'", "nats.port: Expected `int`, got `str`"),
        ("[nats]\nport = '4222'", "nats.port: Expected `int`, got `str`"),
        ("nats = 'x'", "nats: Expected `object`, got `str`"),
        ("[nats.port]\nx = 1", "nats.port.x: nats.port is a value, not a table"),
        ("[budgets]\nmax_usd = 0.5", 'budgets.max_usd: money is a string of dollars, as in "0.50"'),
        ("[runtime]\nslots = 0", "runtime.slots: Expected `int` >= 1"),
        ("[people.'a b']", "'a b' is no name"),
        ("[groups.g]\nmembers = ['nobody']", "groups.g.members: 'nobody' is not in [people]"),
        ("[tenants.t.principals.p]\nscopes = ['x']", "p.scopes: 'x' is not among"),
        ("[runtime]\nheartbeat_s = 4", "must be longer than the heartbeat of 4 s"),
        ("[nats", "t.toml: "),
    ],
)
def test_a_wrong_value_says_where(text: str, said: str, tmp_path: Path) -> None:
    assert said in fails(text, tmp_path).message


def test_wrong_text_in_a_variable_says_which() -> None:
    with pytest.raises(ConfigError, match="TREADLE_NATS__PORT: "):
        load(environ={"TREADLE_NATS__PORT": "many"})
    with pytest.raises(ConfigError, match="TREADLE_NOTIFY__COMMAND: is no TOML list"):
        load(environ={"TREADLE_NOTIFY__COMMAND": "[oops"})


@given(st.dictionaries(st.text(max_size=8), st.integers() | st.text(max_size=8), max_size=3))
def test_any_environment_is_read_or_refused(values: dict[str, object]) -> None:
    env = {f"TREADLE_{key}__{key}": str(value) for key, value in values.items()}
    if env:
        with pytest.raises(ConfigError):
            load(environ=env)


def test_rows_show_no_password() -> None:
    config = load(environ={"TREADLE_NATS__URL": "nats://user:hunter2@host:4222"})
    assert {key: value for key, value, _ in config.rows()}["nats.url"] == "nats://…@host:4222"
    assert config.settings.nats.url == "nats://user:hunter2@host:4222"


def test_the_app_is_read_below_the_user(tmp_path: Path) -> None:
    app, here = tmp_path / "app", tmp_path / "here"
    for folder in (app, here):
        folder.mkdir()
        (folder / "treadle.toml").touch()
    other = tmp_path / "other.toml"
    other.touch()
    names = [app / "treadle.toml", here / "treadle.toml"]
    assert settings_files(user=None, here=here, app_dir=app) == tuple(names)
    assert settings_files(user=other, here=here, app_dir=app) == (names[0], other)
    assert settings_files(user=None, here=here, app_dir=here) == (names[1],)
    assert settings_files(user=None, here=tmp_path, app_dir=None) == ()
    with pytest.raises(ConfigError, match="no such file"):
        settings_files(user=tmp_path / "missing.toml", here=here, app_dir=None)


POLICY = """
[limits."refund.auto_inr"]
value = 1000
source = "POL-REF-004 v4 3.2"
"""


def test_a_policy_is_its_limits_and_their_sources(tmp_path: Path) -> None:
    policy = load_policy(written(tmp_path, POLICY))
    assert policy.limits == {"refund.auto_inr": Limit(value=1000, source="POL-REF-004 v4 3.2")}
    assert len(policy.version) == 12


def test_the_version_follows_content_and_nothing_else(tmp_path: Path) -> None:
    first = load_policy(written(tmp_path, POLICY)).version
    assert load_policy(written(tmp_path, "# a comment\n" + POLICY)).version == first
    assert load_policy(written(tmp_path, POLICY.replace("1000", "1001"))).version != first
    assert load_policy(written(tmp_path, POLICY.replace("v4", "v5"))).version != first
    assert load_policy().version != first


def test_the_users_limit_replaces_the_apps(tmp_path: Path) -> None:
    app = tmp_path / "policy.toml"
    app.write_text(POLICY + '[limits."other"]\nvalue = true\nsource = "S"\n')
    user = written(tmp_path, POLICY.replace("1000", "50"))
    limits = load_policy([app, *user]).limits
    assert (limits["refund.auto_inr"].value, limits["other"].value) == (50, True)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[limits."a"]\nvalue = 1', 'limits."a": Object missing required field `source`'),
        ('[limits."a"]\nvalue = 1\nsource = ""', "length >= 1"),
        ('[limits."a"]\nvalue = 1.5\nsource = "s"', "Expected"),
        ('[limits."a"]\nvalue = 1\nsuorce = "s"', "unknown key 'suorce'"),
        ('[limits.a.b]\nvalue = 1\nsource = "s"', "quoted"),
        ('[limit."a"]\nvalue = 1', "unknown key"),
        ("limits = 3", "must be a table"),
        ("[limits]\na = 3", "Expected `object`"),
    ],
)
def test_a_policy_without_its_due_is_refused(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as failed:
        load_policy(written(tmp_path, text))
    assert said in failed.value.message


def test_a_secret_comes_from_env_then_file_then_credentials(tmp_path: Path) -> None:
    (tmp_path / "KEY").write_text("from-directory\n")
    (tmp_path / "f").write_text("from-file\n")
    env = {"CREDENTIALS_DIRECTORY": str(tmp_path)}
    assert read_secret("OTHER", env) is None
    assert read_secret("KEY", env) == "from-directory"
    env["KEY_FILE"] = str(tmp_path / "f")
    assert read_secret("KEY", env) == "from-file"
    env["KEY"] = "from-env"
    assert read_secret("KEY", env) == "from-env"
    with pytest.raises(ConfigError, match="KEY_FILE: cannot read"):
        read_secret("KEY", {"KEY_FILE": str(tmp_path / "missing")})
