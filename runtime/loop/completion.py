"""The last question before success: are the effects there that the journal calls done?

Every executed write whose tool has a lookup is looked up once (DESIGN.md section 8). What is absent
rejects the completion; a lookup that cannot decide contradicts nothing (docs/decisions/0023).
"""

from messages import events as e
from messages.agent import AgentSpec
from messages.parts import JsonValue, Problem
from messages.state import LoopState, Outstanding, Turn
from messages.status import Reason, Status
from runtime.loop.directives import Finish, Record, Verify

_HINT = (
    "It is not done again under this key. Do not report it as done: say what is missing, ask the"
    " task's owner, or give up."
)


def succeed(
    state: LoopState, agent: AgentSpec, turn: Turn, output: JsonValue = None
) -> Verify | Record | Finish:
    """What a run does that would succeed now.

    Args:
        state: folded; nothing is left to do or to judge.
        agent: tells which tools can be asked.
        turn: the open one.
        output: what is handed in, where something is.
    """
    executed = [effect for effect in state.outstanding if effect.status == "executed"]
    if absent := [effect for effect in executed if effect.verification == "absent"]:
        return Record(events=(e.CompletionRejected(step=turn.step, problem=_missing(absent)),))
    if keys := _unseen(executed, agent):
        return Verify(keys=keys)
    reason = Reason.VERIFIED if agent.has_done else Reason.UNVERIFIED
    return Finish(status=Status.SUCCEEDED, reason=reason, output=output)


def _unseen(executed: list[Outstanding], agent: AgentSpec) -> tuple[str, ...]:
    """Keys to look up; calls that shared one had one effect."""
    keys = [
        effect.key
        for effect in executed
        if effect.verification is None and _has_lookup(agent, effect.kind)
    ]
    return tuple(dict.fromkeys(keys))


def _has_lookup(agent: AgentSpec, name: str) -> bool:
    tool = agent.tool(name)
    return tool is not None and tool.has_lookup


def _missing(absent: list[Outstanding]) -> Problem:
    named = ", ".join(dict.fromkeys(f"{effect.kind} ({effect.key})" for effect in absent))
    return Problem(
        code="EFFECT_NOT_FOUND",
        message=f"completion rejected: the record says that this was done, and a lookup does not"
        f" find it: {named}",
        hint=_HINT,
    )
