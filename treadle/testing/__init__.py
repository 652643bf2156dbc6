"""Running an agent in a test: the real loop and the real roles, in memory, in milliseconds.

Only three things are not the daemon's: the bus carries messages by hand-over, the ledger keeps its
rows in dictionaries, and the model plays a script. Every decision, check, grant and claim is made
by the code that runs in production.
"""

from typing import Any

import anyio

from messages.parts import JsonValue
from runtime.agent import Agent
from runtime.model.scripted import Playable, Script, Turn, View, call, finish, say, turn
from runtime.settings import Policy
from treadle.testing.crash import Crash
from treadle.testing.stage import Run, Stage

__all__ = ["Crash", "Run", "Script", "Turn", "View", "call", "finish", "run", "say", "turn"]


async def run(  # noqa: PLR0913 -- a test says what it needs by name
    agent: Agent[Any],
    goal: str,
    *,
    model: Playable,
    deps: object = None,
    inputs: dict[str, JsonValue] | None = None,
    approve: bool | None = True,
    crash: Crash | None = None,
    policy: Policy | None = None,
    timeout_s: float = 30.0,
) -> Run:
    """Run an agent to its end, or to a wait that nothing here will end.

    Args:
        agent: what is tested.
        goal: of the task.
        model: what the model says, turn by turn, or a function of what was said.
        deps: what tools get as ``ctx.deps``: an object, or an async context manager of one.
        inputs: of the task.
        approve: every approval is granted (True), denied (False), or left open (None).
        crash: dies once at that place and starts again on the same ledger.
        policy: limits that rules read.
        timeout_s: of the whole.

    Raises:
        TimeoutError: it neither ended nor waits.
    """
    stage = Stage(
        agent,
        model,
        deps,
        approve=approve,
        crash=crash,
        policy=policy or Policy(version="test", limits={}),
    )
    with anyio.fail_after(timeout_s):
        return await stage.play(goal, inputs or {})
