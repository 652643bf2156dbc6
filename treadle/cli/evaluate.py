"""eval: a scripted suite under each of its configurations, and the figures side by side."""

from typing import TYPE_CHECKING, Final

import click

from messages.errors import UsageError
from treadle.cli import parse, session
from treadle.cli.failures import InterruptedByUserError
from treadle.cli.format import Row, emit, facts, note
from treadle.cli.metrics import exits_text, figures_text
from treadle.cli.options import Options, command, current_options

if TYPE_CHECKING:
    from collections.abc import Mapping

    from messages.ledger import Tally
    from treadle.evaluation.suite import Suite

_TIMEOUT_S: Final = 120.0


@command("eval", effect="rw")
@click.argument("suite", metavar="SUITE")
@click.option(
    "--timeout",
    type=parse.Duration(),
    default=_TIMEOUT_S,
    metavar="S",
    show_default=True,
    help="How long all of it may take.",
)
def evaluate(*, suite: str, timeout: float) -> None:
    """Run a scripted suite and print its figures for each configuration.

    SUITE is a TOML file, or the name of a suite that ships: loop_detection. The real roles run it
    in this process, on the ledger of the data directory, which no daemon may be using. The runs
    stay there, under the labels eval, configuration, task and evaluation; the figures are of this
    evaluation alone. Ctrl-C cancels the runs that are under way.
    """
    from treadle.evaluation.reading import load_suite  # noqa: PLC0415 -- msgspec is slow to import

    options = current_options()
    if options.nats is not None:
        raise UsageError("an evaluation needs no NATS server", hint="leave --nats out")
    loaded = load_suite(suite)
    try:
        tallies = session.run_async(lambda: _play(options, loaded, timeout))
    except KeyboardInterrupt:
        message = "interrupted; the runs under way were cancelled"
        raise InterruptedByUserError(message) from None
    _print(options, tallies)


async def _play(options: Options, suite: "Suite", timeout_s: float) -> "Mapping[str, Tally]":
    from treadle.evaluation.stage import evaluation  # noqa: PLC0415 -- so are the roles

    async with evaluation(suite, options.directory) as playing:
        note(options, f"{suite.runs} runs of {suite.name}: --label evaluation={playing.id}")
        return await playing.play(timeout_s)


def _print(options: Options, tallies: "Mapping[str, Tally]") -> None:
    from runtime.views.metrics import all_figures, nine_figures  # noqa: PLC0415 -- see above

    reply = {"configurations": {name: nine_figures(tally) for name, tally in tallies.items()}}
    rows: list[Row] = [
        {"configuration": name, **figures} for name, figures in reply["configurations"].items()
    ]

    def text() -> str:
        ended = [(name, exits_text(all_figures(t)["exits"])) for name, t in tallies.items()]
        figures = figures_text(rows, "CONFIGURATION", "configuration", options)
        return f"{figures}\n\n{facts(ended, options)}"

    emit(options, reply, rows=rows, name="configuration", text=text)
