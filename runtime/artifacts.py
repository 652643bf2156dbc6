"""Payloads too large to travel or to lie in a journal: kept in parts, named by content hash."""

import msgspec

from messages.canon import canonical, sha256_hex
from messages.errors import NotFound
from messages.ledger import Fetch, Fetched, Keep
from messages.parts import JsonValue
from runtime.asking import Asking

INLINE_BYTES = 128 * 1024
"""A larger payload becomes an artifact; the evidence holds a beginning of it and its hash."""
_PART_BYTES = 512 * 1024
_PREVIEW_CHARS = 4_000


async def keep_if_large(
    asking: Asking, tenant: str, payload: JsonValue, *, inline_bytes: int = INLINE_BYTES
) -> tuple[JsonValue, str | None]:
    """``payload`` itself; or a beginning of it and the name of the artifact that is whole.

    Raises:
        GiveUp, TreadleError: the ledger did not take it.
    """
    data = canonical(payload)
    if len(data) <= inline_bytes:
        return payload, None
    ref = sha256_hex(data)
    parts = -(-len(data) // _PART_BYTES)
    for part in range(parts):
        chunk = data[part * _PART_BYTES : (part + 1) * _PART_BYTES]
        _ = await asking.again(Keep(tenant=tenant, sha256=ref, part=part, parts=parts, data=chunk))
    text = payload if isinstance(payload, str) else data.decode()
    sizes = {"bytes": len(data), "characters": len(text), "is_cut": True}
    return {"beginning": text[:_PREVIEW_CHARS], **sizes}, ref


async def fetch_artifact(asking: Asking, tenant: str, ref: str) -> JsonValue:
    """The decoded JSON of an artifact.

    Raises:
        NotFound: it is not there, or not whole.
    """
    data, part, parts = b"", 0, 1
    while part < parts:
        answer = await asking.again(Fetch(tenant=tenant, sha256=ref, part=part))
        if not isinstance(answer, Fetched):
            raise NotFound("artifact", ref)
        data, part, parts = data + answer.data, part + 1, answer.parts
    return msgspec.json.decode(data)
