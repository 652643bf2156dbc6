"""The file of effects: durable before it is told, and taken back where it could not be."""

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from treadle.examples.refunds.effects import EffectLog, FileHeldError, Payload

REQUEST: Payload = {"order_id": "8472", "payment_id": "pay_5a2", "amount_inr": 2000}


@pytest.fixture
def path(data_dir: Path) -> Path:
    return data_dir / "payments.jsonl"


@pytest.fixture
def log(path: Path) -> Iterator[EffectLog]:
    log = EffectLog(path)
    yield log
    log.close()


def test_a_line_is_synced_before_anyone_is_told(
    log: EffectLog, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[bytes] = []

    def sync(_fd: int) -> None:
        synced.append(path.read_bytes())

    monkeypatch.setattr(os, "fsync", sync)
    log.perform("refund", "k", REQUEST, honour_key=True)
    assert synced == [path.read_bytes()]
    assert synced[0].endswith(b"}\n")


def _cut_short(write: Callable[[int, bytes], int]) -> Callable[[int, bytes], int]:
    return lambda fd, line: write(fd, line[:10])


def _fail(_fd: int) -> None:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


@pytest.mark.parametrize(("name", "fault"), [("fsync", _fail), ("write", _cut_short(os.write))])
def test_what_cannot_be_made_durable_is_taken_back(
    log: EffectLog, path: Path, monkeypatch: pytest.MonkeyPatch, name: str, fault: object
) -> None:
    log.perform("refund", "first", REQUEST, honour_key=True)
    before = path.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(os, name, fault)
        with pytest.raises(OSError, match=r"error|space"):
            log.perform("refund", "second", REQUEST, honour_key=True)
    assert path.read_bytes() == before
    assert log.by_key("second") is None

    effect, is_new = log.perform("refund", "second", REQUEST, honour_key=True)
    assert is_new
    assert effect["payload"]["refund_id"] == "rf_9002"
    assert path.read_bytes().startswith(before)
    assert len(path.read_bytes().splitlines()) == 2


def test_the_file_has_one_owner_until_it_is_closed(log: EffectLog, path: Path) -> None:
    with pytest.raises(FileHeldError):
        EffectLog(path)
    log.close()
    EffectLog(path).close()
