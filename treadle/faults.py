"""Faults that the environment of ``treadle up`` asks for: a process that breaks itself once.

::

    TREADLE_FAULTS=executor.after_effect=kill:trial/fired
    TREADLE_FAULTS=orchestrator.after_append=stop@3:trial/a,planner.before_model=term:trial/b

Each fault is ``POINT=ACTION[@N]:FILE``: the N-th time this process reaches the point (the first,
if nothing is said) it creates FILE, writes and syncs what happened, and then acts. FILE is created
exclusively, so a fault fires once, whatever is restarted and however many processes share it, and
whoever armed it can tell whether and when it fired. While FILE's directory does not exist, the
fault is not armed and nothing is counted: a test makes the directory once it is ready.
"""

import json
import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from messages.errors import ConfigError
from runtime import faults
from runtime.clock import Clock
from runtime.config_keys import nearest
from runtime.faults import POINTS, Point
from runtime.log import Level, Line, log

VARIABLE: Final = "TREADLE_FAULTS"
ACTIONS: Final[Mapping[str, signal.Signals | None]] = {
    "kill": signal.SIGKILL,
    "stop": signal.SIGSTOP,
    "term": signal.SIGTERM,
    "note": None,
}
"""The signal that the process sends itself; ``note`` leaves the marker and goes on."""
_FORM: Final = "must be POINT=ACTION[@N]:FILE"


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One fault.

    Attributes:
        point: Where.
        action: One of ``ACTIONS``.
        count: The how-many-th time this process reaches the point while it is armed.
        marker: Created when it fires; where it exists, it has fired, and where its directory does
            not, it is not armed.
    """

    point: Point
    action: str
    count: int
    marker: Path


class _Armed:
    """A fault and how often its point was reached here."""

    def __init__(self, fault: Fault, clock: Clock) -> None:
        self._fault = fault
        self._clock = clock
        self._reached = 0

    def reach(self, point: Point) -> None:
        """Fire, if it is this point's turn and nobody was first."""
        marker = self._fault.marker
        if point != self._fault.point or marker.exists() or not marker.parent.is_dir():
            return
        self._reached += 1
        if self._reached == self._fault.count and self._is_first():
            signum = ACTIONS[self._fault.action]
            if signum is not None:
                signal.raise_signal(signum)

    def _is_first(self) -> bool:
        """Leave the marker. Blocks on the disk, as a process that is about to die may."""
        try:
            fd = os.open(self._fault.marker, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            return False
        said = {"point": self._fault.point, "pid": os.getpid(), "at": self._clock.now()}
        try:
            _ = os.write(fd, json.dumps(said).encode())
            os.fsync(fd)
        finally:
            os.close(fd)
        return True


def arm_from(environ: Mapping[str, str], clock: Clock) -> None:
    """Arm what the environment asks for; nothing, as a rule.

    Raises:
        ConfigError: no such point or action, or no form at all.
    """
    for fault in faults_of(environ.get(VARIABLE, "")):
        log(Line.FAULT_ARMED, Level.WARNING, point=fault.point, action=fault.action)
        faults.arm(_Armed(fault, clock).reach)


def faults_of(text: str) -> tuple[Fault, ...]:
    """Read what the variable says.

    Raises:
        ConfigError: no such point or action, or no form at all.
    """
    return tuple(_fault(part.strip()) for part in text.split(",") if part.strip())


def _fault(text: str) -> Fault:
    point, _, rest = text.partition("=")
    what, _, file = rest.partition(":")
    action, _, count = what.partition("@")
    if point not in POINTS:
        problem = f"there is no fault point {point!r}"
        raise ConfigError(VARIABLE, problem, nearest=nearest(point, POINTS))
    if action not in ACTIONS:
        problem = f"there is no action {action!r}; there are: {', '.join(ACTIONS)}"
        raise ConfigError(VARIABLE, problem)
    is_count = not count or (count.isascii() and count.isdigit() and int(count) > 0)
    if not file or not is_count or what.endswith("@"):
        raise ConfigError(VARIABLE, f"{_FORM}, not {text!r}")
    return Fault(point=point, action=action, count=int(count or 1), marker=Path(file))
