"""Case B25: a read, a write, and a model that calls what is not there."""

from typing import Any

from tests.cases.apps import downstream
from tests.cases.apps.script import case_of, playing
from treadle import Agent, App, Ctx, Request, Ruling, allow, read, write


@read(source="shelf")
def lookup(ctx: Ctx[None], key: str) -> dict[str, Any]:
    """Look up the value of a key."""
    downstream.note(downstream.FILE, kind="lookup", key=key)
    return {"key": key, "value": f"value of {key}"}


@write(key="note:{text}:v1")
def note_add(ctx: Ctx[None], text: str) -> dict[str, Any]:
    """Add a note."""
    downstream.note(downstream.FILE, kind="note_add", key=ctx.idempotency_key, text=text)
    return {"text": text}


@note_add.rule
def may_note(req: Request, text: str) -> Ruling:
    return allow()


@note_add.lookup
def find_note(ctx: Ctx[None], text: str) -> dict[str, Any] | None:
    notes = [line for line in downstream.lines(downstream.place()) if line["kind"] == "note_add"]
    return {"text": text} if any(n["key"] == ctx.idempotency_key for n in notes) else None


TURNS = case_of("b25")["model_turns"]
SAME = {**TURNS[0], "content": [{"type": "tool_use", "name": "look_up", "input": {"key": "k2"}}]}
agent = Agent("b25", model="m", instructions="Look things up.", tools=[lookup, note_add])
app = App(agent, script=playing({"a": TURNS, "same": [SAME] * 6}))
