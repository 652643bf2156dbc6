"""A grant is good for exactly what it says: every bit, every field, every other use."""

import base64
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from messages.authority import Grant, GrantedAction
from messages.canon import canonical
from messages.errors import BadGrant, ConfigError
from runtime.policy.grants import Signer, Verifier, load_signer, signed_bytes

SIGNER = Signer(b"\x01" * 32)
VERIFIER = Verifier(SIGNER.public_key)
NOW = 1_700_000_000.0

ACTION = GrantedAction(
    ordinal=0,
    tool="issue_refund",
    action_hash="a" * 64,
    key="refund:order-ORD-1:P-1:v1",
    approval_id="apr-5521",
    is_replay=False,
)
GRANT = SIGNER.sign(
    Grant(
        id="gr-1",
        tenant="default",
        run_id="run-1",
        step=4,
        actions=(
            ACTION,
            GrantedAction(
                ordinal=1, tool="notify", action_hash="b" * 64, key="n:1", is_replay=True
            ),
            GrantedAction(ordinal=2, tool="issue_refund", action_hash="c" * 64, purpose="recheck"),
            GrantedAction(ordinal=3, tool="issue_refund", action_hash="d" * 64, purpose="lookup"),
        ),
        expires_at=NOW + 20,
        policy="v7",
    )
)
USE: dict[str, Any] = {
    "tenant": "default",
    "run_id": "run-1",
    "step": 4,
    "ordinal": 0,
    "tool": "issue_refund",
    "action_hash": "a" * 64,
    "key": "refund:order-ORD-1:P-1:v1",
    "purpose": "execute",
    "now": NOW,
    "skew_s": 1.0,
}


def verify(grant: Grant | None, **changes: Any) -> GrantedAction:
    return VERIFIER.verify(grant, **(USE | changes))


def test_a_signed_grant_allows_what_it_says() -> None:
    assert verify(GRANT) == ACTION
    assert verify(GRANT, purpose="recheck") == ACTION


def test_the_signature_covers_everything_but_itself() -> None:
    assert signed_bytes(GRANT) == signed_bytes(replace(GRANT, signature="x"))
    assert SIGNER.sign(GRANT) == GRANT


@pytest.mark.parametrize(
    ("use", "reason"),
    [
        ({"tenant": "other"}, "another tenant"),
        ({"tenant": "Default"}, "another tenant"),
        ({"run_id": "run-2"}, "another run"),
        ({"run_id": ""}, "another run"),
        ({"step": 5}, "another step"),
        ({"step": 4.0}, "another step"),
        ({"ordinal": 9}, "no action 9"),
        ({"ordinal": 1}, "another tool"),
        ({"tool": "notify"}, "another tool"),
        ({"action_hash": "a" * 63 + "b"}, "another action hash"),
        ({"action_hash": "a" * 12}, "another action hash"),
        ({"key": "refund:order-ORD-1:P-2:v1"}, "another key"),
        ({"key": None}, "another key"),
        ({"key": ""}, "another key"),
        ({"purpose": "lookup"}, "is to execute, not to lookup"),
        ({"now": NOW + 19.1}, "has expired"),
        ({"now": NOW + 20}, "has expired"),
        ({"now": NOW + 10, "skew_s": 10.0}, "has expired"),
        ({"now": float("nan")}, "has expired"),
        ({"now": float("inf")}, "has expired"),
    ],
)
def test_another_use_is_refused(use: dict[str, Any], reason: str) -> None:
    with pytest.raises(BadGrant, match=reason):
        verify(GRANT, **use)


@pytest.mark.parametrize(
    ("ordinal", "letter", "key", "purpose"),
    [
        (2, "c", None, "execute"),
        (2, "c", None, "lookup"),
        (3, "d", None, "execute"),
        (3, "d", None, "recheck"),
    ],
)
def test_a_smaller_purpose_allows_nothing_larger(
    ordinal: int, letter: str, key: None, purpose: str
) -> None:
    with pytest.raises(BadGrant, match="not to"):
        verify(GRANT, ordinal=ordinal, action_hash=letter * 64, key=key, purpose=purpose)


@pytest.mark.parametrize(
    "grant",
    [
        None,
        replace(GRANT, signature=""),
        replace(GRANT, signature=GRANT.signature[:-1]),
        replace(GRANT, signature=GRANT.signature + "A"),
        replace(GRANT, signature=GRANT.signature + "=="),
        replace(GRANT, signature=GRANT.signature + "\n"),
        replace(GRANT, signature="not base64 ü"),
        replace(GRANT, signature="A" * 86),
        replace(GRANT, signature=base64.b64encode(b"\xff" * 64).decode()),
        Signer(b"\x02" * 32).sign(GRANT),
    ],
    ids=str,
)
def test_no_or_another_signature_is_refused(grant: Grant | None) -> None:
    with pytest.raises(BadGrant):
        verify(grant)


FIELDS: list[Callable[[], Grant]] = [
    lambda: replace(GRANT, id="gr-2"),
    lambda: replace(GRANT, tenant="other"),
    lambda: replace(GRANT, run_id="run-2"),
    lambda: replace(GRANT, step=5),
    lambda: replace(GRANT, actions=()),
    lambda: replace(GRANT, actions=GRANT.actions[:1]),
    lambda: replace(GRANT, actions=GRANT.actions[::-1]),
    lambda: replace(GRANT, actions=(*GRANT.actions, ACTION)),
    lambda: replace(GRANT, expires_at=NOW + 21),
    lambda: replace(GRANT, policy=""),
    *(
        lambda changes=changes: replace(
            GRANT, actions=(replace(ACTION, **changes), *GRANT.actions[1:])
        )
        for changes in (
            {"ordinal": 7},
            {"tool": "notify"},
            {"action_hash": "e" * 64},
            {"key": None},
            {"key": "k"},
            {"approval_id": None},
            {"approval_id": "apr-1"},
            {"purpose": "recheck"},
            {"is_replay": True},
        )
    ),
]


@pytest.mark.parametrize("mutated", FIELDS)
def test_every_changed_field_is_refused(mutated: Callable[[], Grant]) -> None:
    grant = mutated()
    action = grant.actions[0] if grant.actions else ACTION
    with pytest.raises(BadGrant, match="signature"):
        # Even where the use follows the change.
        verify(
            grant,
            tenant=grant.tenant,
            run_id=grant.run_id,
            step=grant.step,
            ordinal=action.ordinal,
            tool=action.tool,
            action_hash=action.action_hash,
            key=action.key,
            purpose=action.purpose,
        )


def test_every_field_of_a_grant_is_mutated_above() -> None:
    assert len(msgspec.structs.fields(Grant)) == 8
    assert len(msgspec.structs.fields(GrantedAction)) == 7


def test_every_flipped_bit_is_refused() -> None:
    encoded = canonical(GRANT)
    tried = 0
    for index in range(len(encoded) * 8):
        flipped = bytearray(encoded)
        flipped[index // 8] ^= 1 << (index % 8)
        try:
            grant = msgspec.json.decode(flipped, type=Grant)
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue
        assert grant != GRANT
        tried += 1
        action = grant.action(0) or ACTION
        for use in (
            {},
            {"tool": action.tool, "action_hash": action.action_hash, "key": action.key},
        ):
            with pytest.raises(BadGrant):
                verify(grant, tenant=grant.tenant, run_id=grant.run_id, step=grant.step, **use)
    assert tried > 1000


def test_every_flipped_bit_of_the_signed_bytes_is_another_signature() -> None:
    data, signature = signed_bytes(GRANT), base64.urlsafe_b64decode(GRANT.signature + "==")
    VERIFIER._key.verify(data, signature)
    for index in range(len(data) * 8):
        flipped = bytearray(data)
        flipped[index // 8] ^= 1 << (index % 8)
        with pytest.raises(Exception, match="forged"):
            VERIFIER._key.verify(bytes(flipped), signature)


def test_a_grant_survives_the_wire() -> None:
    assert verify(msgspec.json.decode(msgspec.json.encode(GRANT), type=Grant)) == ACTION


def test_the_key_is_made_once_and_kept_private(data_dir: Path) -> None:
    first = load_signer(data_dir)
    path = data_dir / "signing.key"
    assert path.stat().st_mode & 0o777 == 0o600
    assert len(path.read_bytes()) == 32
    assert load_signer(data_dir).public_key == first.public_key
    assert [each.name for each in data_dir.iterdir()] == ["signing.key"]
    assert path.read_bytes().hex() not in repr(first)


def test_a_key_that_others_can_read_is_refused(data_dir: Path) -> None:
    load_signer(data_dir)
    (data_dir / "signing.key").chmod(0o640)
    with pytest.raises(ConfigError, match="chmod 600"):
        load_signer(data_dir)


def test_a_key_of_another_length_is_refused(data_dir: Path) -> None:
    path = data_dir / "signing.key"
    path.write_bytes(b"short")
    path.chmod(0o600)
    with pytest.raises(ConfigError, match="5 bytes long and must be 32"):
        load_signer(data_dir)


def test_two_processes_making_a_key_agree(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = os.link

    def other_was_first(source: Path, target: Path) -> None:
        target.write_bytes(b"\x05" * 32)
        target.chmod(0o600)
        link(source, target)

    monkeypatch.setattr(os, "link", other_was_first)
    assert load_signer(data_dir).public_key == Signer(b"\x05" * 32).public_key
    assert [each.name for each in data_dir.iterdir()] == ["signing.key"]


@pytest.mark.parametrize("text", ["", "x", "ü", "A" * 42, "A" * 44])
def test_no_public_key(text: str) -> None:
    with pytest.raises(ConfigError):
        Verifier(text)
