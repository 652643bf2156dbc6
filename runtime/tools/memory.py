"""Tools with which a model keeps what a long run must not lose, and reads further what was cut.

They are declared by an agent like any other tool. Notes and to-do list are the model's own words:
they come back at the beginning of each new conversation, and are no evidence of anything. A result
is read from the record of the run (``actors.orchestrator.recorded``), so no executor is asked.
"""

from typing import Annotated, Any

import msgspec

from messages.errors import Unrecoverable
from runtime.tools.context import Ctx
from runtime.tools.declare import read

_SOURCE = "the model's own words"


class Item(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One thing to do."""

    text: Annotated[str, msgspec.Meta(min_length=1, max_length=100)]
    is_done: bool = False


@read(source=_SOURCE)
async def keep_notes(
    ctx: Ctx[Any], text: Annotated[str, msgspec.Meta(min_length=1, max_length=2_000)]
) -> str:
    """Keep notes on your progress, in place of the ones before.

    They stay with you when older parts of the conversation are no longer shown.
    """
    del ctx
    return text


@read(source=_SOURCE)
async def keep_todo(
    ctx: Ctx[Any], items: Annotated[list[Item], msgspec.Meta(max_length=30)]
) -> list[Item]:
    """Keep a to-do list, in place of the one before.

    It stays with you when older parts of the conversation are no longer shown.
    """
    del ctx
    return items


@read(source="record", polling=True)  # reading again what was cleared is no lack of progress
async def read_result(
    ctx: Ctx[Any], evidence: str, offset: Annotated[int, msgspec.Meta(ge=0)] = 0
) -> dict[str, Any]:
    """Read again what an earlier tool call returned, for a result that was cut or cleared.

    Takes the id of the evidence, such as ev-3, and the character to begin at.
    """
    asked = f"{evidence}, from {offset} on"
    raise Unrecoverable(f"{asked}: only a run has a record, and {ctx.run_id} has none")
