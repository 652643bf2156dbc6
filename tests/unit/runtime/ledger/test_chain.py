import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from messages.errors import BrokenChain
from messages.events import Resumed
from messages.ledger import Entry
from runtime.ledger import chain


def journal(length: int) -> list[Entry]:
    entries: list[Entry] = []
    last = ""
    for version in range(length):
        bare = Entry(
            tenant="acme",
            run_id="r1",
            version=version,
            append_id=f"a{version}",
            at=1.5,
            prev_hash=last,
            events=(Resumed(why=f"ü {version}"),),
        )
        last, body = chain.seal(bare)
        entries.append(chain.unseal(body, last, "here"))
    return entries


def test_an_entry_comes_back_as_it_was_sealed() -> None:
    first, second = journal(2)
    assert second.prev_hash == first.hash
    assert (second.version, second.events) == (1, (Resumed(why="ü 1"),))
    assert chain.verify([first, second], head_hash=second.hash) == 2


def test_an_empty_journal_holds_together() -> None:
    assert chain.verify([]) == 0
    assert chain.verify([], head_hash="") == 0


@given(st.integers(0, 10_000), st.integers(1, 255))
def test_every_changed_byte_is_found(place: int, flip: int) -> None:
    entry = replace(journal(1)[0], hash="")
    entry_hash, body = chain.seal(entry)
    place %= len(body)
    bad = body[:place] + bytes([body[place] ^ flip]) + body[place + 1 :]
    with pytest.raises(BrokenChain, match="here"):
        chain.unseal(bad, entry_hash, "here")


def test_bytes_that_hash_but_are_no_entry_are_broken_too() -> None:
    from messages.canon import sha256_hex  # noqa: PLC0415 -- only here

    with pytest.raises(BrokenChain, match="cannot be read"):
        chain.unseal(b"{}", sha256_hex(b"{}"), "here")


@pytest.mark.parametrize("version", range(4))
def test_verify_names_the_first_place_that_is_wrong(version: int) -> None:
    entries = journal(4)
    entries[version] = replace(entries[version], append_id="other")
    with pytest.raises(BrokenChain, match=f"version {version}"):
        chain.verify(entries)


def test_verify_finds_missing_swapped_and_cut_off_entries() -> None:
    a, b, c = journal(3)
    for entries in ([a, c], [b, c], [a, c, b]):
        with pytest.raises(BrokenChain):
            chain.verify(entries)
    with pytest.raises(BrokenChain, match="before its head"):
        chain.verify([a, b], head_hash=c.hash)
