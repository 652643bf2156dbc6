"""The bytes of every message as they may lie in somebody's ledger, and what adds new ones.

``python -m tests.unit.messages.golden`` writes what is missing. A field that was added moves the
old bytes to ``<name>.old-<n>.json``, where they must stay readable; a field that changed or went
away is refused, since it needs a new version of the tag.
"""

import sys
from pathlib import Path
from typing import Any, cast

import msgspec

from messages.codec import encode
from tests.unit.messages.examples import everything, example

Json = dict[str, Any]
FOLDER = Path(__file__).parent / "golden"


def current(name: str) -> Path:
    """Where the golden bytes of a message lie."""
    return FOLDER / f"{name}.json"


def older(name: str) -> list[Path]:
    """Bytes of the same tag from before fields were added."""
    return sorted(FOLDER.glob(f"{name}.old-*.json"))


def golden_bytes(path: Path) -> bytes:
    """The message itself; the file ends with a line break so that diffs read well."""
    return path.read_bytes().removesuffix(b"\n")


def main() -> int:
    """Write what is missing; refuse what may not change."""
    FOLDER.mkdir(exist_ok=True)
    refused = [name for name in everything() if not _write(name)]
    for name in refused:
        _ = sys.stderr.write(f"{name}: a field changed or went away; give it a new version\n")
    return 1 if refused else 0


def _write(name: str) -> bool:
    path, data = current(name), encode(example(everything()[name]))
    if path.is_file():
        old = golden_bytes(path)
        if old == data:
            return True
        if not _is_within(msgspec.json.decode(old), msgspec.json.decode(data)):
            return False
        _ = path.rename(FOLDER / f"{name}.old-{len(older(name)) + 1}.json")
    _ = path.write_bytes(data + b"\n")
    _ = sys.stdout.write(f"wrote {path.name}\n")
    return True


def _is_within(old: Any, new: Any) -> bool:
    """Whether new says everything that old says, and perhaps more."""
    if type(old) is not type(new):
        return False
    if isinstance(old, dict):
        return all(key in new and _is_within(old[key], new[key]) for key in cast("Json", old))
    if isinstance(old, list):
        pairs = zip(cast("list[Any]", old), new, strict=False)
        return len(cast("list[Any]", old)) == len(new) and all(_is_within(a, b) for a, b in pairs)
    return old == new


if __name__ == "__main__":
    sys.exit(main())
