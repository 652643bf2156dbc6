"""Grants: the authoriser signs what may be done, the executor verifies before anything else.

The only import of nacl. A grant is one Ed25519 signature over the canonical form of everything else
in it, so that changing any field by one bit makes it invalid; and it says run, tenant, step, tool,
action hash, key, purpose and expiry, so that a valid one is of no use for anything else.

Signing and verifying take about 50 and 110 microseconds; nothing here does I/O but ``load_signer``.
"""

import base64
import binascii
import os
import secrets
from collections.abc import Iterable
from pathlib import Path

from msgspec.structs import replace
from nacl.exceptions import BadSignatureError
from nacl.signing import SigningKey, VerifyKey

from messages.authority import Grant, GrantedAction, Purpose
from messages.base import Timestamp
from messages.canon import canonical
from messages.errors import BadGrant, ConfigError

KEY_FILE = "signing.key"
SEED_BYTES = 32

_DOMAIN = b"treadle-grant/1\n"
"""Nothing else that this key might ever sign starts with it."""
_OTHERS = 0o077
_BOUND_TO = ("tenant", "run", "step", "tool", "action hash", "key")
_COVERS: dict[Purpose, frozenset[Purpose]] = {
    "execute": frozenset({"execute", "recheck"}),
    "recheck": frozenset({"recheck"}),
    "lookup": frozenset({"lookup"}),
}


class Signer:
    """Holds the signing key; only the authoriser has one."""

    def __init__(self, seed: bytes) -> None:
        """Args: seed: 32 secret bytes.

        Raises:
            ConfigError: It has another length.
        """
        if len(seed) != SEED_BYTES:
            where = "signing key"
            raise ConfigError(where, f"is {len(seed)} bytes long and must be {SEED_BYTES}")
        self._key = SigningKey(seed)

    def __repr__(self) -> str:
        return f"Signer(public_key={self.public_key!r})"

    @property
    def public_key(self) -> str:
        """What a ``Verifier`` needs, as text that may be published."""
        return _text(bytes(self._key.verify_key))

    def sign(self, grant: Grant) -> Grant:
        """``grant`` with its signature."""
        signature = self._key.sign(signed_bytes(grant)).signature
        return replace(grant, signature=_text(signature))


class Verifier:
    """Holds the public key; every executor has one."""

    def __init__(self, public_key: str) -> None:
        """Args: public_key: of a ``Signer``.

        Raises:
            ConfigError: It is none.
        """
        try:
            self._key = VerifyKey(_bytes(public_key))
        except (ValueError, TypeError) as error:
            where = "grant public key"
            raise ConfigError(where, "is no base64url text of 32 bytes") from error

    def verify(  # noqa: PLR0913 -- each is one thing that a grant is bound to, and all by name
        self,
        grant: Grant | None,
        *,
        tenant: str,
        run_id: str,
        step: int,
        ordinal: int,
        tool: str,
        action_hash: str,
        key: str | None,
        purpose: Purpose,
        now: Timestamp,
        skew_s: float,
    ) -> GrantedAction:
        """The granted action that allows exactly this use.

        Args:
            grant: What came with the request.
            tenant: Whose run is about to act.
            run_id: Which run.
            step: In which step.
            ordinal: The call's place within the step.
            tool: What is about to be called.
            action_hash: Computed from the bytes that will run.
            key: The idempotency key that will be used.
            purpose: What is about to be done.
            now: The ledger's clock, as well as it is known.
            skew_s: How far ``now`` may be behind it; a grant that expires within is expired.

        Raises:
            BadGrant: It is absent, forged, expired, or for something else; nothing may be started.
        """
        if grant is None:
            message = "there is no grant"
            raise BadGrant(message)
        self._check_signature(grant)
        action = grant.action(ordinal)
        if action is None:
            message = f"grant {grant.id:.80} has no action {ordinal}"
            raise BadGrant(message)
        granted = (grant.tenant, grant.run_id, grant.step, action.tool, action.action_hash)
        wanted = (tenant, run_id, step, tool, action_hash)
        _check_same(grant, (*granted, action.key), (*wanted, key))
        if purpose not in _COVERS[action.purpose]:
            message = f"grant {grant.id:.80} is to {action.purpose}, not to {purpose}"
            raise BadGrant(message)
        if not now + skew_s < grant.expires_at:
            message = f"grant {grant.id:.80} has expired"
            raise BadGrant(message)
        return action

    def _check_signature(self, grant: Grant) -> None:
        try:
            self._key.verify(signed_bytes(grant), _bytes(grant.signature))
        except (BadSignatureError, ValueError, TypeError) as error:
            message = f"grant {grant.id:.80} does not have the authoriser's signature"
            raise BadGrant(message) from error


def signed_bytes(grant: Grant) -> bytes:
    """What is signed: the canonical form of the grant without its signature."""
    return _DOMAIN + canonical(replace(grant, signature=""))


def _check_same(grant: Grant, granted: Iterable[object], wanted: Iterable[object]) -> None:
    for name, ours, theirs in zip(_BOUND_TO, granted, wanted, strict=True):
        if type(ours) is not type(theirs) or ours != theirs:
            message = f"grant {grant.id:.80} is for another {name}"
            raise BadGrant(message)


def load_signer(data_dir: Path) -> Signer:
    """The signer of a data directory; its key is made once. Blocks on the disk.

    Args:
        data_dir: Where ``signing.key`` is or will be, mode 0600.

    Raises:
        ConfigError: The file can be read by others, or is no key.
        OSError: The disk failed.
    """
    path = data_dir / KEY_FILE
    try:
        return Signer(_read(path))
    except FileNotFoundError:
        _create(path)
    return Signer(_read(path))


def _read(path: Path) -> bytes:
    mode = path.stat().st_mode
    if mode & _OTHERS:
        problem = f"others may read it (mode {mode & 0o777:o}); chmod 600 it, or make a new one"
        raise ConfigError(str(path), problem)
    return path.read_bytes()


def _create(path: Path) -> None:
    """Put a whole, synced key in place, or leave the one that another process put there."""
    draft = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_bytes(SEED_BYTES))
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(draft, path)
        except FileExistsError:
            return
    finally:
        draft.unlink()
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _bytes(text: str) -> bytes:
    """Decode strictly: one text per value, since the last letter has bits that decoders ignore."""
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as error:
        message = "no base64url"
        raise ValueError(message) from error
    if _text(data) != text:
        message = "no canonical base64url"
        raise ValueError(message)
    return data
