"""Idempotency keys, and artifacts."""

# ruff: noqa: D102, S608 -- Tables documents the methods; statements are made of constants only

from collections.abc import Iterable, Sequence

import msgspec

from messages.ledger import EffectRow
from runtime.ledger.sqlite_tables.statements import Statements, encode
from runtime.ledger.tables import ArtifactHead

_read_effect = msgspec.json.Decoder(EffectRow).decode


class EffectTables(Statements):
    """The part of ``Tables`` about effects."""

    def effect(self, tenant: str, key: str) -> EffectRow | None:
        sql = "SELECT doc FROM effects WHERE tenant = ? AND key = ?"
        return self.doc(_read_effect, sql, (tenant, key))

    def put_effect(self, row: EffectRow) -> None:
        self.write(
            "INSERT INTO effects (tenant, key, run_id, state, updated_at, doc) "
            "VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (tenant, key) DO UPDATE SET "
            "run_id = excluded.run_id, state = excluded.state, "
            "updated_at = excluded.updated_at, doc = excluded.doc",
            (row.tenant, row.key, row.run_id, row.state, row.updated_at, encode(row)),
        )

    def effects_of(self, tenant: str, run_id: str) -> Sequence[EffectRow]:
        sql = "SELECT doc FROM effects WHERE tenant = ? AND run_id = ? ORDER BY key"
        return [_read_effect(row[0]) for row in self.all(sql, (tenant, run_id))]

    def newest_effects(self, tenant: str, *, is_unresolved_only: bool) -> Iterable[EffectRow]:
        only = "AND state = 'unknown' " if is_unresolved_only else ""
        sql = f"SELECT doc FROM effects WHERE tenant = ? {only}ORDER BY updated_at DESC, key DESC"
        return self.docs(_read_effect, sql, (tenant,))


class ArtifactTables(Statements):
    """The part of ``Tables`` about artifacts."""

    def artifact(self, tenant: str, sha256: str) -> ArtifactHead | None:
        sql = (
            "SELECT max(parts), count(*), min(is_whole) FROM artifacts "
            "WHERE tenant = ? AND sha256 = ?"
        )
        row = self.one(sql, (tenant, sha256))
        if row is None or row[0] is None:
            return None
        return ArtifactHead(row[0], row[1], bool(row[2]))

    def put_part(self, tenant: str, sha256: str, part: int, parts: int, data: bytes) -> None:
        self.write(
            "INSERT INTO artifacts (tenant, sha256, part, parts, is_whole, data) "
            "VALUES (?, ?, ?, ?, 0, ?) ON CONFLICT (tenant, sha256, part) DO UPDATE SET "
            "data = excluded.data",
            (tenant, sha256, part, parts, data),
        )

    def part(self, tenant: str, sha256: str, part: int) -> bytes | None:
        sql = "SELECT data FROM artifacts WHERE tenant = ? AND sha256 = ? AND part = ?"
        row = self.one(sql, (tenant, sha256, part))
        return None if row is None else row[0]

    def mark_whole(self, tenant: str, sha256: str) -> None:
        self.write(
            "UPDATE artifacts SET is_whole = 1 WHERE tenant = ? AND sha256 = ?", (tenant, sha256)
        )

    def drop_artifact(self, tenant: str, sha256: str) -> None:
        self.write("DELETE FROM artifacts WHERE tenant = ? AND sha256 = ?", (tenant, sha256))
