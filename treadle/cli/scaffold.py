"""What ``treadle init`` writes: the files in ``template``, each a complete, checked example."""

from importlib.resources import files
from pathlib import Path
from typing import Final

from messages.errors import UsageError

FILES: Final = {
    "app.py": "app.py.txt",
    "tools.py": "tools.py.txt",
    "policy.toml": "policy.toml.txt",
    "treadle.toml": "treadle.toml.txt",
    "tests/test_app.py": "test_app.py.txt",
    "README.md": "README.md.txt",
}


def write_app(directory: Path) -> list[Path]:
    """Write every file of a new app.

    Returns:
        What was written.

    Raises:
        UsageError: the directory holds something; nothing was written.
    """
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise UsageError(
            f"{directory} is not empty", hint="name a directory that does not exist yet"
        )
    template = files("treadle.cli") / "template"
    written: list[Path] = []
    for name, source in FILES.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text((template / source).read_text(encoding="utf-8"), encoding="utf-8")
        written.append(path)
    return written
