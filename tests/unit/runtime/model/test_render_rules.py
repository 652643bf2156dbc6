"""Whatever happens in a run, each request is one that the provider takes."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from messages.agent import AgentSpec
from runtime.model.fold import fold_conversation
from runtime.model.render import request_of, tools_of
from tests.fakes.rules import body_of, broken_rule
from tests.unit.runtime.loop.loop_world import World, variants


@given(st.integers(0, 2**32), st.sampled_from(variants()))
def test_every_request_of_a_run_keeps_the_rules(seed: int, spec: AgentSpec) -> None:
    world = World(seed, spec=spec).play()
    tools = tools_of(spec)
    talk = None
    before: list[dict[str, Any]] = []
    for entry in world.journal:
        talk = fold_conversation(talk, entry, spec)
        reservation = talk.state.reservation
        if reservation is None or talk.state.status.is_suspended:
            continue
        body = body_of(request_of(talk, spec, tools, reservation))
        assert broken_rule(body, before) == ""
        before.append(body)
