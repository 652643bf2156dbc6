"""The file that says what really happened: one synced line per refund or notification.

It is the payments service's only durable state and the judge of every test that counts effects:
``{"at", "kind", "key", "payload"}``, appended and synced before anyone is told. A service that
starts again reads it and goes on honouring the keys in it.
"""

import errno
import json
import os
import threading
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal, TypedDict, cast, final

from treadle.examples.refunds.place import try_lock

Kind = Literal["refund", "notification"]
Payload = dict[str, str | int]

_ID_PREFIX: Final[dict[Kind, str]] = {"refund": "rf", "notification": "msg"}
_FIRST_STATUS: Final[dict[Kind, str]] = {"refund": "pending", "notification": "sent"}


class Effect(TypedDict):
    """One line of the file: this happened, once, at this time, under this key."""

    at: str
    kind: Kind
    key: str | None
    payload: Payload


class KeyMismatchError(Exception):
    """The key was used before, for something else; nothing was done now."""


class FileHeldError(Exception):
    """Another service process owns this file."""


@final
class FileCorruptError(Exception):
    """A line before the last one is not an effect, so the file cannot be trusted."""

    def __init__(self, path: Path, offset: int) -> None:
        """Args: path: the file; offset: bytes before the bad line."""
        super().__init__(f"{path}: the line at byte {offset} is not an effect")


@final
class EffectLog:
    """The effects of one data directory. Safe to use from many threads.

    The file is locked for as long as the object lives: two services on one file would each
    remember their own keys and do the same thing twice.
    """

    def __init__(self, path: Path) -> None:
        """Open and read the file, dropping a last line that a crash cut short.

        Raises:
            FileHeldError: another process holds the file.
            FileCorruptError: an earlier line is unreadable.
        """
        self.path = path
        self._lock = threading.Lock()
        self._by_key: dict[str, Effect] = {}
        self._refunds: dict[str, list[Payload]] = {}
        self._numbers: Counter[tuple[Kind, str]] = Counter()
        fd = try_lock(path)
        if fd is None:
            raise FileHeldError(path)
        self._fd = fd
        self._size = self._load(path.read_bytes())
        self._cut()
        _sync_folder(path.parent)

    def close(self) -> None:
        """Give the file to whoever wants it next. Closing again does nothing."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    @property
    def is_gone(self) -> bool:
        """Whether the file was deleted or replaced under us, as when a test removes its folder."""
        try:
            named = self.path.stat()
        except OSError:
            return True
        return not os.path.samestat(named, os.fstat(self._fd))

    def by_key(self, key: str) -> Effect | None:
        """The first effect that was done under this key, if there is one."""
        with self._lock:
            return self._by_key.get(key)

    def refunds(self, order_id: str) -> list[Payload]:
        """The refunds of an order, oldest first."""
        with self._lock:
            return list(self._refunds.get(order_id, ()))

    def perform(
        self, kind: Kind, key: str | None, request: Payload, *, honour_key: bool
    ) -> tuple[Effect, bool]:
        """Make the effect happen, or find that it already has.

        Args:
            kind: what to do.
            key: the caller's idempotency key.
            request: the checked body; it must name the order.
            honour_key: False does it again whatever the key says.

        Returns:
            The effect, and whether it happened just now.

        Raises:
            KeyMismatchError: the key stands for another request.
            OSError: the line could not be made durable; it was taken back.
        """
        with self._lock:
            if honour_key and key is not None and (known := self._by_key.get(key)):
                if known["kind"] != kind or not request.items() <= known["payload"].items():
                    raise KeyMismatchError(key)
                return known, False
            effect = self._new(kind, key, request)
            self._append(effect)
            self._remember(effect)
            return effect, True

    def _new(self, kind: Kind, key: str | None, request: Payload) -> Effect:
        order_id = str(request["order_id"])
        number = self._numbers[kind, order_id] + 1
        # The documentation's order has the documentation's refund id.
        tail = str(9000 + number) if order_id == "8472" else f"{order_id}_{number}"
        made: Payload = {f"{kind}_id": f"{_ID_PREFIX[kind]}_{tail}", "status": _FIRST_STATUS[kind]}
        # Another process than Treadle, with its own clock.
        now = datetime.now(UTC)  # noqa: TID251
        at = now.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return {"at": at, "kind": kind, "key": key, "payload": made | request}

    def _append(self, effect: Effect) -> None:
        line = json.dumps(effect, separators=(",", ":")).encode() + b"\n"
        try:
            written = os.write(self._fd, line)
            os.fsync(self._fd)
        except OSError:
            self._cut()
            raise
        if written != len(line):  # the disk is full
            self._cut()
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
        self._size += len(line)

    def _cut(self) -> None:
        """Drop what stands behind the last whole line, and write there next."""
        os.ftruncate(self._fd, self._size)
        os.lseek(self._fd, self._size, os.SEEK_SET)

    def _remember(self, effect: Effect) -> None:
        kind, payload = effect["kind"], effect["payload"]
        self._numbers[kind, str(payload["order_id"])] += 1
        if effect["key"] is not None:
            self._by_key.setdefault(effect["key"], effect)
        if kind == "refund":
            self._refunds.setdefault(str(payload["order_id"]), []).append(payload)

    def _load(self, content: bytes) -> int:
        """Read every line; return the size up to the last whole one."""
        size = 0
        for line in content.splitlines(keepends=True):
            effect = _parse(line)
            if effect is None:
                # A line is acknowledged only after it was synced whole, so a torn one at the end
                # was promised to nobody.
                if size + len(line) != len(content):
                    raise FileCorruptError(self.path, size)
                return size
            self._remember(effect)
            size += len(line)
        return size


def _parse(line: bytes) -> Effect | None:
    """Read one line; None where it is cut short or holds no effect."""
    if not line.endswith(b"\n"):
        return None
    try:
        effect = cast("Effect", json.loads(line))
        is_known = effect["kind"] in _ID_PREFIX and "key" in effect
        is_about_an_order = bool(effect["payload"]["order_id"])
    except (ValueError, TypeError, KeyError):
        return None
    return effect if is_known and is_about_an_order else None


def _sync_folder(folder: Path) -> None:
    """Make the file's name as durable as its lines."""
    fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
