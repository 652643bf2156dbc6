"""What is wrong with an app that loads: limits and groups its rules name and nobody has set.

A rule that reads a missing limit fails when a person's money waits for it; here it fails in
``treadle check``. The names are read off the source of the rules: a name that is computed cannot be
seen and is not judged.
"""

import ast
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from messages.errors import ConfigError
from runtime import config as files
from runtime.agent import Agent, App
from runtime.declared import source_of
from runtime.settings import Policy, Settings
from runtime.tools.tool import Tool
from treadle.cli.findings import Finding, nearest_hint

_READS: Final = frozenset({"limit", "setting"})
Reader = Callable[[ast.Call], str | None]


class Named(NamedTuple):
    """A name in a rule, and where it stands."""

    name: str
    where: str


def review(app: App | None, app_dir: Path | None, config: Path | None) -> list[Finding]:
    """Everything that is wrong with the app's files, then with the app itself.

    Args:
        app: None where it could not be loaded; its files are judged all the same.
        app_dir: where its module lies.
        config: the file named with ``--config``.
    """
    here = Path.cwd()
    findings: list[Finding] = []
    settings: Settings | None = None
    policy: Policy | None = None
    try:
        named = files.settings_files(user=config, here=here, app_dir=app_dir)
        settings = files.load(named).settings
    except ConfigError as error:
        findings.append(_of(error))
    try:
        named = files.settings_files(user=None, here=here, app_dir=app_dir, name=files.POLICY_FILE)
        policy = files.load_policy(named)
    except ConfigError as error:
        findings.append(_of(error))
    if app is not None and policy is not None:
        findings += _missing_limits(app, policy)
    if app is not None and settings is not None and settings.groups:
        findings += _missing_groups(app, settings)
    return findings


def summary(app: App) -> list[dict[str, Any]]:
    """The agents of an app that is fine, for JSON."""
    return [_agent_row(agent) for agent in app.agents.values()]


def _agent_row(agent: Agent[Any]) -> dict[str, Any]:
    spec = agent.spec()
    tools = [{"name": tool.name, "kind": tool.kind, "effect": tool.effect} for tool in spec.tools]
    return {"name": spec.name, "model": spec.model, "has_done": spec.has_done, "tools": tools}


def _of(error: ConfigError) -> Finding:
    problem = error.message.removeprefix(f"{error.where}: ")
    return Finding(code=error.code, where=error.where, message=problem, hint=error.hint)


def _missing_limits(app: App, policy: Policy) -> list[Finding]:
    return [
        Finding(
            code="LIMIT",
            where=named.where,
            message=f"the rule reads limit {named.name!r}, which no policy.toml sets",
            hint=nearest_hint(named.name, policy.limits)
            or f'add [limits."{named.name}"] with value and source to policy.toml',
        )
        for named in _names(app, _limit_read)
        if named.name not in policy.limits
    ]


def _missing_groups(app: App, settings: Settings) -> list[Finding]:
    asked = [*_names(app, _group_asked), *_escalations(app)]
    return [
        Finding(
            code="GROUP",
            where=named.where,
            message=f"group {named.name!r} is asked, and [groups] of treadle.toml has none",
            hint=nearest_hint(named.name, settings.groups) or f"add [groups.{named.name}]",
        )
        for named in asked
        if named.name not in settings.groups
    ]


def _escalations(app: App) -> Iterator[Named]:
    for agent in app.agents.values():
        if (group := agent.spec().errors.escalate_to) is not None:
            yield Named(group, f"agent {agent.name!r}, escalate_to")


def _names(app: App, reader: Reader) -> Iterator[Named]:
    for tool in app.tools.values():
        for name in dict.fromkeys(_in_rule(tool, reader)):
            yield Named(name, f"rule of {tool.what}")


def _in_rule(tool: Tool[..., Any], reader: Reader) -> Iterator[str]:
    try:
        tree = ast.parse(textwrap.dedent(source_of(tool.rule_hook)))
    except SyntaxError:  # byte code instead of source: the rule has no file
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and (name := reader(node)) is not None:
            yield name


def _limit_read(node: ast.Call) -> str | None:
    """The name in ``req.limit("name")``."""
    is_read = isinstance(node.func, ast.Attribute) and node.func.attr in _READS
    return _first_text(node) if is_read else None


def _group_asked(node: ast.Call) -> str | None:
    """The name in ``ask("group", …)``."""
    is_ask = isinstance(node.func, ast.Name) and node.func.id == "ask"
    return _first_text(node) if is_ask else None


def _first_text(node: ast.Call) -> str | None:
    first = node.args[0] if node.args else None
    return first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else None
