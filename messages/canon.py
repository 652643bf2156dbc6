"""Canonical form, hashes and fingerprints.

One canonical JSON decides what two values being "the same" means, for idempotency, approvals,
grants and the progress monitor alike. It is msgspec's deterministic JSON (keys sorted, no spaces,
UTF-8): a decoded value encoded again, never the text somebody sent.
"""

import hashlib

import msgspec

_ENCODER = msgspec.json.Encoder(order="deterministic")

SHOWN_HEX = 12
"""How many hex digits of a hash are shown to people; inside, hashes are whole."""


def canonical(value: object) -> bytes:
    """The canonical JSON of ``value``.

    Raises:
        TypeError, ValueError, UnicodeEncodeError: it cannot be JSON; values from outside pass
            ``runtime.tools.clean`` first, so for them this cannot happen.
    """
    return _ENCODER.encode(value)


def sha256_hex(data: bytes) -> str:
    """Full SHA-256 in lower-case hex."""
    return hashlib.sha256(data).hexdigest()


def digest(value: object) -> str:
    """SHA-256 of the canonical form."""
    return hashlib.sha256(_ENCODER.encode(value)).hexdigest()


def action_hash(tool: str, arguments: object, key: str | None) -> str:
    """What an approval and a grant are bound to: tool, canonical arguments and key (seeds/a)."""
    return digest({"tool": tool, "arguments": arguments, "key": key})


def arguments_hash(arguments: object) -> str:
    """Fingerprint of canonical arguments, as tool history holds it."""
    return digest(arguments)


def action_fingerprint(tool: str, arguments: object) -> str:
    """The progress monitor's name of an action: short, since it only has to tell apart."""
    return digest({"tool": tool, "args": arguments})[:16]


def shown(full_hash: str) -> str:
    """The digits of a hash that people see."""
    return full_hash[:SHOWN_HEX]
