"""config: what is configured, where it comes from, and whether it holds together."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import urlsplit, urlunsplit

import click

from treadle.cli import loading
from treadle.cli.failures import DONE, FINDINGS
from treadle.cli.findings import Finding, finding_text
from treadle.cli.format import Column, Row, emit, plain, short_json, table
from treadle.cli.options import Options, current_options, room

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runtime.config import Config

_HIDDEN: Final = "…"
_SECRET: Final = re.compile(r"(?i)(token|secret|passw|api[-_]?key|bearer|authorization)")


@room("config", effect="ro")
def config() -> None:
    """What is configured; without a verb: show."""


config.default_verb = "show"
_APP = click.option(
    "--app", metavar="MODULE:APP", help="Also the files beside this app, and what it needs."
)


@config.command("show", effect="ro")
@_APP
@click.option("--origin", "has_origin", is_flag=True, help="Also say where each value comes from.")
def show(*, app: str | None, has_origin: bool) -> None:
    """Print every setting in force, secrets hidden.

    Flags win over TREADLE_<SECTION>__<KEY>, that over --config FILE (or ./treadle.toml), that over
    the file beside the app, that over the default.
    """
    options = current_options()
    rows = [_row(*row) for row in _load(options, app).rows()]
    values = {row["key"]: row["value"] for row in rows}
    reply: dict[str, Any] = {"settings": values}
    if has_origin:
        reply["origins"] = {row["key"]: row["origin"] for row in rows}
    text = _show_text(rows, options, has_origin=has_origin)
    emit(options, reply, rows=rows, name="key", text=lambda: text)


@config.command("check", effect="ro")
@_APP
def check(*, app: str | None) -> int:
    """Say what is wrong with treadle.toml, policy.toml, the environment; exit 8 if anything is."""
    options = current_options()
    _, findings = loading.load_for_review(app, options.config)
    rows = [finding.as_row() for finding in findings]
    emit(
        options,
        {"ok": not findings, "findings": rows},
        rows=rows,
        name="where",
        text=lambda: "\n".join(map(finding_text, findings)) or "the configuration is fine",
    )
    return FINDINGS if findings else DONE


def _load(options: Options, app: str | None) -> "Config":
    from runtime import config as files  # noqa: PLC0415 -- imports what settings import

    folder = None
    if app is not None:
        module = loading.find_module(loading.split(app)[0])
        if isinstance(module, Finding):
            raise click.UsageError(finding_text(module))
        folder = loading.folder_of(module)
    return files.load(files.settings_files(user=options.config, here=Path.cwd(), app_dir=folder))


def _row(key: str, value: object, origin: str) -> Row:
    return {"key": key, "value": _safe(key, value), "origin": origin}


def _safe(key: str, value: object) -> object:
    """The value without what may be a secret in it: paths of webhooks, words of a command."""
    if key == "notify.command":
        return _safe_command([str(word) for word in cast("Sequence[object]", value)])
    if key == "notify.webhook" and isinstance(value, str) and value:
        parts = urlsplit(value)  # a webhook's path and query are as good as a password
        return urlunsplit((parts.scheme, parts.netloc, f"/{_HIDDEN}", "", ""))
    return value


def _safe_command(words: list[str]) -> list[str]:
    """A secret named in a word, or the word after it, is not shown."""
    shown: list[str] = []
    is_next_hidden = False
    for word in words:
        name, equals, _ = word.partition("=")
        has_secret = bool(_SECRET.search(name))
        if is_next_hidden:
            shown.append(_HIDDEN)
        else:
            shown.append(f"{name}={_HIDDEN}" if has_secret and equals else word)
        is_next_hidden = has_secret and not equals and not is_next_hidden
    return shown


def _show_text(rows: list[Row], options: Options, *, has_origin: bool) -> str:
    columns = [
        Column("KEY", lambda row: plain(row["key"])),
        Column("VALUE", lambda row: plain(short_json(row["value"]))),
    ]
    if has_origin:
        columns.append(Column("ORIGIN", lambda row: plain(row["origin"])))
    return table(columns, rows, options)
