"""Artifacts: what is too large to travel, in parts, named by the SHA-256 of the whole."""

import hashlib

from messages.ledger import Done, Fetch, Fetched, Keep, Missing, Refused
from runtime.ledger.tables import Tables


def keep(t: Tables, op: Keep, now: float) -> Done | Refused:
    """Store one part. The last one to arrive is the moment the whole is checked."""
    head = t.artifact(op.tenant, op.sha256)
    if head is not None and head.is_whole:
        return Done(now=now)
    is_odd = head is not None and head.parts != op.parts
    if is_odd or not 0 <= op.part < op.parts:
        return Refused(why="BAD_PART", message=f"part {op.part} of {op.parts} does not fit")
    t.put_part(op.tenant, op.sha256, op.part, op.parts, op.data)
    stored = t.artifact(op.tenant, op.sha256)
    if stored is None or stored.kept < stored.parts:
        return Done(now=now)
    if _hash(t, op) != op.sha256:
        # Nobody can tell which part is wrong, so all of them have to come again.
        t.drop_artifact(op.tenant, op.sha256)
        return Refused(why="HASH_MISMATCH", message="the parts do not hash to that name")
    t.mark_whole(op.tenant, op.sha256)
    return Done(now=now)


def _hash(t: Tables, op: Keep) -> str:
    whole = hashlib.sha256()
    for part in range(op.parts):
        whole.update(t.part(op.tenant, op.sha256, part) or b"")
    return whole.hexdigest()


def fetch(t: Tables, op: Fetch) -> Fetched | Missing:
    """One part of a whole artifact; one that is not whole yet is not there."""
    head = t.artifact(op.tenant, op.sha256)
    data = t.part(op.tenant, op.sha256, op.part) if head and head.is_whole else None
    if head is None or data is None:
        return Missing(kind="artifact", name=op.sha256)
    return Fetched(part=op.part, parts=head.parts, data=data)
