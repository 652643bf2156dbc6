"""treadle.toml, environment and flags become one frozen ``Settings``; policy.toml a ``Policy``.

Later layers win: default, the file beside the app, the user's file, ``TREADLE_<SECTION>__<KEY>``,
flags. Layers are merged leaf by leaf, so that every value remembers which layer it came from. An
unknown key is an error everywhere: a misspelt limit that silently does nothing is the worst kind.
"""

import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, cast

import msgspec

from messages.canon import digest, shown
from messages.errors import ConfigError
from runtime import secrets
from runtime.config_keys import Key, Leaf, build, dotted, flatten, nearest
from runtime.settings import Limit, Policy, Settings

ENV_PREFIX = "TREADLE_"
SETTINGS_FILE = "treadle.toml"
POLICY_FILE = "policy.toml"

_CREDENTIALS = re.compile(r"//[^/@\s]+@")
"""User and password inside a URL; shown to nobody."""


class Flag(NamedTuple):
    """A command line option that sets a key; ``value`` None means that it was not given."""

    flag: str
    key: str
    value: object


@dataclass(frozen=True, kw_only=True)
class Config:
    """The settings and where each of them came from.

    Attributes:
        settings: What is in force.
        origins: Key to layer (a file's path, a variable, a flag) for whatever is not a default.
    """

    settings: Settings
    origins: Mapping[str, str]

    def rows(self) -> Iterator[tuple[str, object, str]]:
        """Key, value and origin of everything, for ``config show --origin``."""
        for key, value in flatten(msgspec.to_builtins(self.settings)):
            shown_value = _CREDENTIALS.sub("//…@", value) if isinstance(value, str) else value
            yield dotted(key), shown_value, self.origins.get(dotted(key), "default")

    def place(self, key: str) -> str:
        """Where to look when the value of that key is wrong."""
        origin = self.origins.get(key)
        return f"{origin}: {key}" if origin else key


def settings_files(
    *, user: Path | None, here: Path, app_dir: Path | None, name: str = SETTINGS_FILE
) -> tuple[Path, ...]:
    """The files that apply, the weakest first.

    Args:
        user: The file named with ``--config``; None: the one in ``here``, if there is one.
        here: The working directory.
        app_dir: Where the app's module lies; its file is read below the user's own.
        name: ``treadle.toml`` or ``policy.toml``.

    Raises:
        ConfigError: The named file does not exist.
    """
    if user is not None and not user.is_file():
        raise ConfigError(str(user), "there is no such file")
    found = [app_dir / name] if app_dir is not None else []
    found.append(user or here / name)
    distinct = {path.resolve(): path for path in reversed(found) if path.is_file()}
    return tuple(reversed(distinct.values()))


def load(
    files: Iterable[Path] = (),
    *,
    environ: Mapping[str, str] | None = None,
    flags: Sequence[Flag] = (),
) -> Config:
    """Read and merge every layer.

    Args:
        files: treadle.toml files, the weakest first, as ``settings_files`` gives them.
        environ: The environment; None: the process's own.
        flags: Command line options.

    Raises:
        ConfigError: An unknown key, a wrong type, or values that contradict one another; says
            where and names the nearest known key.
    """
    merged: dict[Key, Leaf] = {}
    for file in files:
        merged |= _by_key(_file_leaves(file))
    env = os.environ if environ is None else environ
    merged |= _by_key(_env_leaves(env, _tables(merged)))
    merged |= _by_key(_flag_leaves(flags))
    origins = {dotted(leaf.key): leaf.origin for leaf in merged.values()}
    config = Config(settings=build(merged.values()), origins=origins)
    _check_together(config)
    return config


def load_policy(files: Iterable[Path] = ()) -> Policy:
    """Read policy.toml files, the weakest first; a limit is replaced whole.

    Raises:
        ConfigError: A limit without value or source, an unknown key, not TOML.
    """
    limits: dict[str, Limit] = {}
    for file in files:
        for name, table in _limit_tables(file):
            limits[name] = _limit(table, f'{file}: limits."{name}"')
    content = {name: [limit.value, limit.source] for name, limit in limits.items()}
    return Policy(version=shown(digest(content)), limits=limits)


def read_secret(name: str, environ: Mapping[str, str] | None = None) -> str | None:
    """A secret by its name, never from argv or a settings file; it is redacted from then on.

    Returns:
        The first there is of ``$NAME``, the file ``$NAME_FILE`` and
        ``$CREDENTIALS_DIRECTORY/NAME``; without spaces and newlines around it.

    Raises:
        ConfigError: One of the files cannot be read.
    """
    secret = _secret(name, os.environ if environ is None else environ)
    if secret is not None:
        secrets.remember(secret.strip())
    return secret


def _secret(name: str, env: Mapping[str, str]) -> str | None:
    if value := env.get(name):
        return value
    if file := env.get(f"{name}_FILE"):
        return _read_text(Path(file), f"{name}_FILE")
    if directory := env.get("CREDENTIALS_DIRECTORY"):
        credential = Path(directory, name)
        if credential.is_file():
            return _read_text(credential, "CREDENTIALS_DIRECTORY")
    return None


def _by_key(leaves: Iterable[Leaf]) -> dict[Key, Leaf]:
    return {leaf.key: leaf for leaf in leaves}


def _file_leaves(file: Path) -> Iterator[Leaf]:
    for key, value in flatten(_read_toml(file)):
        where = f"{file}: {dotted(key)}"
        yield Leaf(key, value, origin=str(file), where=where, is_text=False)


def _env_leaves(environ: Mapping[str, str], tables: set[Key]) -> Iterator[Leaf]:
    for variable, text in sorted(environ.items()):
        if variable.startswith(ENV_PREFIX) and "__" in variable:
            written = tuple(variable.removeprefix(ENV_PREFIX).lower().split("__"))
            key, value = _as_in_file(written, tables), _env_value(text, variable)
            yield Leaf(key, value, origin=variable, where=variable, is_text=True)


def _as_in_file(key: Key, tables: set[Key]) -> Key:
    """Names that no variable can spell: ``SUPPORT_LEAD`` is the ``support-lead`` of a file."""
    for table in sorted(tables, key=len):
        plain = tuple(part.lower().replace("-", "_") for part in table)
        if key[: len(table)] == plain:
            key = table + key[len(table) :]
    return key


def _env_value(text: str, variable: str) -> object:
    """Lists are written as in TOML; all else is text that is read by the key's type."""
    if not text.startswith("["):
        return text
    try:
        return cast("object", tomllib.loads(f"value = {text}")["value"])
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(variable, f"is no TOML list: {error}") from error


def _flag_leaves(flags: Sequence[Flag]) -> Iterator[Leaf]:
    for flag, key, value in flags:
        if value is not None:
            yield Leaf(tuple(key.split(".")), value, origin=flag, where=flag, is_text=True)


def _tables(keys: Iterable[Key]) -> set[Key]:
    return {key[:depth] for key in keys for depth in range(1, len(key) + 1)}


def _check_together(config: Config) -> None:
    """What no single value can be blamed for."""
    settings = config.settings
    for name, group in settings.groups.items():
        problem = "{!r} is not in [people]"
        _check_known(config, f"groups.{name}.members", problem, group.members, settings.people)
    for name, tenant in settings.tenants.items():
        problem = "{!r} is not among the tenant's scopes"
        for principal, granted in tenant.principals.items():
            key = f"tenants.{name}.principals.{principal}.scopes"
            _check_known(config, key, problem, granted.scopes or (), tenant.scopes)
    times = settings.runtime
    if times.heartbeat_s >= times.silence_s:
        problem = f"must be longer than the heartbeat of {times.heartbeat_s:g} s"
        raise ConfigError(config.place("runtime.silence_s"), problem)


def _check_known(
    config: Config, key: str, problem: str, names: Iterable[str], known: Iterable[str]
) -> None:
    known = list(known)
    for name in names:
        if name not in known:
            raise ConfigError(config.place(key), problem.format(name), nearest=nearest(name, known))


def _limit_tables(file: Path) -> Iterator[tuple[str, object]]:
    for section, tables in _read_toml(file).items():
        if section != "limits":
            where = f"{file}: {section}"
            raise ConfigError(where, "unknown key", nearest=nearest(section, ["limits"]))
        if not isinstance(tables, dict):
            raise ConfigError(f"{file}: limits", "must be a table of limits")
        yield from cast("dict[str, object]", tables).items()


def _limit(table: object, where: str) -> Limit:
    known = [field.name for field in msgspec.structs.fields(Limit)]
    for key in cast("dict[str, object]", table) if isinstance(table, dict) else ():
        if key not in known:
            problem = f'unknown key {key!r}; a name with dots is quoted, as in [limits."a.b"]'
            raise ConfigError(where, problem, nearest=nearest(key, known))
    try:
        return msgspec.convert(table, Limit)
    except msgspec.ValidationError as error:
        raise ConfigError(where, str(error)) from error


def _read_toml(file: Path) -> dict[str, object]:
    text = _read_text(file, str(file))
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(str(file), str(error)) from error


def _read_text(file: Path, where: str) -> str:
    try:
        return file.read_text("utf-8").strip()
    except OSError as error:
        raise ConfigError(where, f"cannot read {file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(where, f"{file} is not UTF-8") from error
