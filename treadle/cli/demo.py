"""demo: the refund example end to end, embedded, on a folder of its own.

It runs the real thing: ``treadle up`` as a child process with its own NATS server, a client that
submits, a second one, with the approver's credentials, that decides.
"""

from dataclasses import replace
from pathlib import Path
from typing import Final

import click

from messages.errors import UsageError
from treadle.cli import session
from treadle.cli.demo_place import DaemonProcess, fresh_place
from treadle.cli.demo_story import Story, effects_in, ending
from treadle.cli.failures import DONE, FAILED
from treadle.cli.format import Row, as_json
from treadle.cli.options import Options, command, current_options
from treadle.cli.people import approval_text, read_approval
from treadle.cli.progress import follow

APP: Final = "treadle.examples.refunds.app:app"
AGENT: Final = "refund"
GOAL: Final = (
    "Order 8472 was charged twice and the refund has not arrived. Find out why and settle it."
)
INPUTS: Final = {"order_id": "8472"}


@command("demo", effect="rw")
@click.option("--model", default="scripted", show_default=True, metavar="M", help="Who decides.")
def demo(*, model: str) -> int:
    """Run the refund example end to end: investigate, ask a person, refund once, notify once.

    At a terminal it stops at the approval and asks; without one, or with --yes, it approves as the
    demo's support lead. Data goes to .treadle/demo (or --data-dir); an earlier demo's data is moved
    aside to demo-1, demo-2, ... and kept.
    """
    options = current_options()
    if options.nats is not None:
        raise UsageError("the demo starts its own NATS server", hint="leave --nats out")
    place = options.data_dir or options.directory / "demo"
    moved = fresh_place(place)
    here = replace(options, data_dir=place)
    with DaemonProcess(place, APP, model):
        run = session.run_async(lambda: _play(here, model))
    effects = effects_in(place)
    return _finish(options, run, effects, place, moved)


async def _play(options: Options, model: str) -> Row:
    """Submit, tell what happens, decide at the approval; return the run as it ended."""
    async with (
        session.connect(options, session.SUBMITTER) as submitter,
        session.connect(options, session.OPERATOR) as operator,
    ):
        reply = await submitter.submit(AGENT, GOAL, inputs=INPUTS)
        run_id: str = reply["run_id"]
        story = Story(operator, options.directory, is_data=_is_told_on_stdout(options))
        story.say(f"run     {run_id}  agent {AGENT}, model {model}")
        story.say(f"goal    {GOAL}")
        async for event in follow(session.Source(operator, operator), run_id):
            await story.tell(event)
            if event["kind"] == "approval_requested":
                await _decide(options, story, event["approval_id"])
        return await operator.show(run_id)


async def _decide(options: Options, story: Story, approval_id: str) -> None:
    async with session.connect(options, session.APPROVER) as approver:
        approval = await read_approval(approver, approval_id)
        story.say()
        story.say(approval_text(approval, options))
        action = str(approval.get("action_sha256") or approval["action_hash"])
        if not options.may_ask or click.confirm("Approve this?", default=False, err=True):
            await approver.approve(approval_id, action=action, reason="approved in the demo")
        else:
            await approver.deny(approval_id, action=action, reason="declined in the demo")
        story.say()


def _is_told_on_stdout(options: Options) -> bool:
    return options.output == "table"


def _finish(options: Options, run: Row, effects: list[Row], place: Path, moved: Path | None) -> int:
    refunds = sum(effect["kind"] == "refund" for effect in effects)
    if _is_told_on_stdout(options):
        print(ending(run, effects, place, moved))
    else:
        reply = {
            "v": 1,
            "run_id": run["run_id"],
            "status": run["status"],
            "reason": run["reason"],
            "refunds": refunds,
            "effects": effects,
            "data_dir": str(place),
        }
        text = run["run_id"] if options.output == "name" else as_json(reply)
        print(text)
    return DONE if run["status"] == "SUCCEEDED" and refunds == 1 else FAILED
