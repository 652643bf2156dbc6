"""JSON Schema of everything that travels or is stored."""

from typing import Any, Final

import msgspec

from docs.generate.markdown import BY_HAND
from messages import api, codec, task
from messages.events import AnyEvent
from messages.ledger import Entry

PUBLIC: Final[dict[str, type[msgspec.Struct]]] = {
    "task": task.Task,
    "accepted": task.Accepted,
    "refusal": task.Refusal,
    "result": task.Result,
    "api_error": api.ErrorReply,
}


def messages_page() -> str:
    """JSON Schema (2020-12) of everything that travels or is stored, by tag."""
    groups: dict[str, dict[str, type[Any]]] = {
        "public": dict(PUBLIC),
        "api": dict(api.VERBS),
        "messages": {_tag(cls): cls for cls in codec.wire_types()},
        "events": {_tag(cls): cls for cls in sorted(AnyEvent.__args__, key=_tag)},
        "stored": {"entry": Entry},
    }
    named = [
        (group, name, cls) for group, members in groups.items() for name, cls in members.items()
    ]
    references, definitions = msgspec.json.schema_components(
        [cls for _, _, cls in named], ref_template="#/$defs/{name}"
    )
    page: dict[str, Any] = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$comment": BY_HAND,
        "description": (
            "Every message of Treadle. public and api are what other programs send and get;"
            " messages travel between actors, told apart by their tag t (name/version); events lie"
            " in the journal, inside entries. Readers of messages and events ignore unknown fields."
        ),
        **{group: {} for group in groups},
    }
    for (group, name, _), reference in zip(named, references, strict=True):
        page[group][name] = reference
    page["$defs"] = {name: definitions[name] for name in sorted(definitions)}
    return msgspec.json.format(msgspec.json.encode(page), indent=1).decode() + "\n"


def _tag(cls: type[Any]) -> str:
    return str(cls.__struct_config__.tag)
