"""Step 4: is a proposal well-formed? A thin shell around ``runtime.tools``."""

from collections.abc import Mapping
from typing import Any, assert_never

from messages.base import Message, Request
from messages.checks import Rejection, Validate, Validated
from messages.errors import NotFound
from messages.parts import Action, Call, JsonValue, Problem
from runtime.actor import Actor
from runtime.agent import Agent
from runtime.bus.port import Bus, Work
from runtime.faults import fault
from runtime.tools.validate import action_of


class Validator(Actor):
    """Checks proposals.

    Receives: Validate.
    Replies: Validated: per call the canonical action with key and hash, or why not.
    Guarantees: an unknown tool, a wrong argument or a dirty key part is a rejection, never an
    error; nothing outside the request and the app's declarations is read.
    """

    role = "validator"
    is_inline = True

    def __init__(self, bus: Bus, agents: Mapping[str, Agent[Any]]) -> None:
        """Args: bus: the process's connection; agents: of the app, by name."""
        super().__init__(bus)
        self._agents = agents

    async def handle(self, request: Request[object], work: Work) -> Message:
        """Not used: the role is inline."""
        del work
        return self.answer(request)

    def answer(self, request: Request[object]) -> Message:
        """Validate one turn."""
        if not isinstance(request, Validate):
            raise NotFound("verb", f"validator.{request.verb}")
        fault("validator.before_answer")
        agent = self._agents.get(request.agent)
        if agent is None:
            raise NotFound("agent", request.agent)
        if request.is_finish:
            return _finish(agent, request.output)
        actions: list[Action] = []
        rejections: list[Rejection] = []
        for call in request.calls:
            checked = _check(agent, request, call)
            match checked:
                case Action():
                    actions.append(checked)
                case Problem():
                    rejections.append(Rejection(ordinal=call.ordinal, problem=checked))
                case _:
                    assert_never(checked)
        return Validated(actions=tuple(actions), rejections=tuple(rejections))


def _check(agent: Agent[Any], request: Validate, call: Call) -> Action | Problem:
    return action_of(agent, call, origin=request.origin, step=request.step)


def _finish(agent: Agent[Any], output: JsonValue) -> Validated:
    decoded = agent.decode_output(output)
    if isinstance(decoded, Problem):
        return Validated(output_problem=decoded)
    return Validated(output=decoded.canonical)
