"""The scripted model of a case: its own turns, and a note of every request that it is sent."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from runtime.model.scripted import ScriptFunction, Turn, View, say
from tests.cases.apps import downstream

DATA = Path(__file__).parents[1] / "data"


def case_of(name: str) -> dict[str, Any]:
    """A case, whole."""
    return json.loads((DATA / f"{name}.json").read_text())


def turn_of(turn: Mapping[str, Any]) -> Turn:
    """A turn as the case writes it."""
    usage = turn["usage"]
    return Turn(
        blocks=tuple(turn["content"]),
        stop_reason=turn["stop_reason"],
        usage=(usage["input_tokens"], usage["output_tokens"]),
    )


def playing(variants: Mapping[str, Sequence[Mapping[str, Any]]]) -> ScriptFunction:
    """A script that plays the turns of the variant which the task's inputs name."""

    def script(view: View) -> Turn:
        variant = str(view.inputs["variant"])
        downstream.note(
            downstream.REQUESTS,
            goal=view.goal,
            variant=variant,
            turn=view.turn,
            is_final=view.is_final,
            messages=view._messages,
        )
        turns = variants[variant]
        if view.is_final and view.turn >= len(turns):
            return say("this is what is known so far")
        return turn_of(turns[view.turn])

    return script
