"""Text that is too long is cut between two characters, and says so. Pure."""

import msgspec

_ENCODE = msgspec.json.Encoder().encode


def cut(text: str, most: int) -> str:
    """The beginning of ``text`` in at most so many bytes, never half a character."""
    data = text.encode()
    return text if len(data) <= most else data[: max(most, 0)].decode(errors="ignore")


def cut_and_said(text: str, most: int) -> str:
    """The same, and where something is missing, how much; the words about it are in the limit."""
    if len(text.encode()) <= most:
        return text
    said = f" (cut, of {len(text)} characters)"
    return cut(text, most - len(said)) + said


def cut_for_json(text: str, most: int) -> str:
    """The beginning of ``text`` that takes at most so many bytes as a JSON string."""
    kept = cut(text, most)
    while kept and (size := len(_ENCODE(kept))) > most:
        kept = kept[: min(len(kept) * most // size, len(kept) - 1)]
    return kept
