"""The command ``python -m docs.generate``."""

import argparse
import sys

from docs import generate


def main() -> int:
    """Write the pages, or with --check only look."""
    parser = argparse.ArgumentParser(prog="python -m docs.generate", description=generate.__doc__)
    _ = parser.add_argument("--check", action="store_true", help="write nothing, fail if stale")
    is_check: bool = parser.parse_args().check
    old = generate.stale()
    if is_check:
        for path in old:
            _ = sys.stderr.write(f"{path} is stale: run make docs\n")
        return 1 if old else 0
    texts = generate.pages()
    for path in old:
        path.parent.mkdir(parents=True, exist_ok=True)
        _ = path.write_text(texts[path.name], encoding="utf-8")
        _ = sys.stdout.write(f"wrote {path}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
