"""Starting: init, check, up. ``demo`` has a module of its own."""

from pathlib import Path
from typing import Any

import anyio
import click

from treadle.cli import loading
from treadle.cli.failures import DONE, FINDINGS
from treadle.cli.findings import finding_text
from treadle.cli.format import Row, emit
from treadle.cli.options import command, current_options


@command("init", effect="rw")
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
def init(*, directory: Path) -> None:
    """Write a new app into DIR: app, tools, policy, settings, a test.

    DIR must be empty or not exist yet.
    """
    from treadle.cli.scaffold import write_app  # noqa: PLC0415 -- only here

    options = current_options()
    files = [str(path) for path in write_app(directory)]
    emit(
        options,
        {"directory": str(directory), "files": files},
        rows=[{"name": name} for name in files],
        name="name",
        text=lambda: "\n".join([*files, "", f"next: cd {directory} and read README.md"]),
    )


@command("check", effect="ro")
@click.argument("app", metavar="MODULE:APP")
def check(*, app: str) -> int:
    """Load an app and say what is wrong with it, and what to write instead."""
    from treadle.cli.review import summary  # noqa: PLC0415 -- imports what an app imports

    options = current_options()
    loaded, findings = loading.load_for_review(app, options.config)
    rows: list[Row] = [finding.as_row() for finding in findings]
    agents = summary(loaded) if loaded is not None else []
    emit(
        options,
        {"app": app, "ok": not findings, "findings": rows, "agents": agents},
        rows=rows,
        name="where",
        text=lambda: "\n".join(map(finding_text, findings)) or _fine_text(app, agents),
    )
    return FINDINGS if findings else DONE


@command("up", effect="rw")
@click.option("--app", required=True, metavar="MODULE:APP", help="The app to run.")
@click.option(
    "--model", metavar="NAME", help='Instead of the agents\' own; "scripted" needs no key.'
)
@click.option("--paused", "is_paused", is_flag=True, help="Start with a hold on everything.")
@click.option("--roles", metavar="R,R…", help="Serve only these roles.")
@click.option("--tools", metavar="T,T…", help="Its executors serve only these tools.")
@click.option(
    "--join",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Serve for the daemon that wrote this join.json.",
)
@click.option(
    "--http", metavar="HOST:PORT", help="Answer /livez and /readyz here; loopback only, 0 is free."
)
def up(  # noqa: PLR0913 -- click passes one argument per option
    *,
    app: str,
    model: str | None,
    is_paused: bool,
    roles: str | None,
    tools: str | None,
    join: Path | None,
    http: str | None,
) -> int:
    """Run the daemon in the foreground, with a NATS server and a ledger in the data directory.

    Prints "ready" with its addresses on stderr; Ctrl-C or SIGTERM drains and stops it.
    """
    from treadle.daemon import run_daemon  # noqa: PLC0415 -- imports everything
    from treadle.options import options_of  # noqa: PLC0415 -- imports what an app imports

    loading.split(app)
    options = current_options()
    daemon = options_of(
        app=app,
        model=model,
        data_dir=options.directory,
        config_file=options.config,
        nats=options.nats,
        roles=roles,
        tools=tools,
        join=join,
        http=http,
        paused=is_paused,
    )
    return anyio.run(run_daemon, daemon)  # it minds signals itself


def _fine_text(spec: str, agents: list[dict[str, Any]]) -> str:
    lines = [f"{spec} is fine"]
    for agent in agents:
        judged = "judged by its done" if agent["has_done"] else "without done: ends unverified"
        lines.append(f"  agent {agent['name']}: {judged}")
        lines += [
            f"    {tool['kind']:<5} {tool['name']}{_unknown(tool)}" for tool in agent["tools"]
        ]
    return "\n".join(lines)


def _unknown(tool: dict[str, Any]) -> str:
    """How an unknown outcome of a write is resolved."""
    words = {
        "replay": ", unknown outcome: called again with the same key",
        "lookup": ", unknown outcome: looked up by key",
        "blind": ", unknown outcome: a person looks; every call needs approval",
    }
    return words.get(tool["effect"], "")
