"""The hash chain of a journal: seal an entry, open it again, find what was changed.

Source: GUARANTEES.md G23. The hash is SHA-256 over the canonical form of the entry without
``hash``; ``prev_hash`` is one of its fields, so each hash covers everything before it. What is
stored is exactly the bytes that were hashed: a reader checks them before it decodes them, and a
later version with new fields still checks what this one wrote.
"""

from collections.abc import Iterable

import msgspec

from messages.canon import canonical, sha256_hex
from messages.errors import BrokenChain
from messages.ledger import Entry

_DECODER = msgspec.json.Decoder(Entry)


def seal(entry: Entry) -> tuple[str, bytes]:
    """Hash an entry that has none yet.

    Returns:
        Its hash in hex, and the bytes to store.
    """
    body = canonical(entry)
    return sha256_hex(body), body


def unseal(body: bytes, stored_hash: str, place: str) -> Entry:
    """The entry of stored bytes. ``place`` names it in the error.

    Raises:
        BrokenChain: the bytes are not those that were hashed, or are no entry.
    """
    if sha256_hex(body) != stored_hash:
        message = f"{place}: the stored entry does not hash to what was recorded"
        raise BrokenChain(message)
    # The hash is no part of the stored bytes; adding it here saves a copy of the decoded entry.
    whole = body[:-1] + b',"hash":"' + stored_hash.encode() + b'"}'
    try:
        return _DECODER.decode(whole)
    except msgspec.DecodeError as error:
        message = f"{place}: the stored entry cannot be read: {error}"
        raise BrokenChain(message) from error


def place(run_id: str, version: int) -> str:
    """How an entry is named to a person."""
    return f"run {run_id} version {version}"


def follow(entry: Entry, version: int, prev_hash: str | None) -> None:
    """Check that an entry is the one that must come next.

    Args:
        entry: As it was read.
        version: What its version must be.
        prev_hash: Hash of the entry before it; None where that is not known.

    Raises:
        BrokenChain: an entry is missing, or this one hangs on another.
    """
    if entry.version != version:
        message = f"{place(entry.run_id, version)}: the entry is missing"
        raise BrokenChain(message)
    if prev_hash is not None and entry.prev_hash != prev_hash:
        message = f"{place(entry.run_id, version)}: it does not follow the entry before it"
        raise BrokenChain(message)


def verify(entries: Iterable[Entry], *, head_hash: str | None = None) -> int:
    """Check a whole journal from version 0.

    Args:
        entries: In order.
        head_hash: What the run's row says the last hash is; None: not known.

    Returns:
        How many entries there are.

    Raises:
        BrokenChain: with the place of the first mistake.
    """
    count, last = 0, ""
    run_id = ""
    for entry in entries:
        follow(entry, count, last)
        bare = msgspec.structs.replace(entry, hash="")
        if sha256_hex(canonical(bare)) != entry.hash:
            message = f"{place(entry.run_id, count)}: it does not hash to what was recorded"
            raise BrokenChain(message)
        run_id, count, last = entry.run_id, count + 1, entry.hash
    if head_hash is not None and last != head_hash:
        message = f"{place(run_id or 'of no entries', count)}: the journal ends before its head"
        raise BrokenChain(message)
    return count
