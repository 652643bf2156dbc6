"""The installed ``treadle`` command as a user runs it: its own process, in its own folder."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TREADLE = Path(sys.executable).with_name("treadle")


@dataclass(frozen=True)
class Done:
    """How a command line ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def error(self) -> Any:
        """The error object on stderr, which is its last line."""
        return json.loads(self.err.strip().splitlines()[-1])["error"]


def treadle(*arguments: str, cwd: Path, timeout_s: float = 60, **environ: str) -> Done:
    """Run one command to its end, with nobody at a terminal."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TREADLE_")}
    done = subprocess.run(
        [TREADLE, *arguments],
        cwd=cwd,
        env={**kept, **environ},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    return Done(done.returncode, done.stdout, done.stderr)
