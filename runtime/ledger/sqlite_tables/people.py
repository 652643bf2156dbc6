"""Approvals, questions, signals and holds."""

# ruff: noqa: D102, S608 -- Tables documents the methods; statements are made of constants only

from collections.abc import Iterable, Sequence

import msgspec
from msgspec.structs import replace

from messages.ledger import ApprovalRow, HoldRow, QuestionRow, Signal
from runtime.ledger.sqlite_tables.statements import Statements, encode

_read_approval = msgspec.json.Decoder(ApprovalRow).decode
_read_question = msgspec.json.Decoder(QuestionRow).decode
_read_signal = msgspec.json.Decoder(Signal).decode
_read_hold = msgspec.json.Decoder(HoldRow).decode


class PeopleTables(Statements):
    """The part of ``Tables`` about people and what they say; holds are read once a transaction."""

    _holds: Sequence[HoldRow] | None = None

    def begin(self) -> None:
        super().begin()
        self._holds = None

    def approval(self, tenant: str, approval_id: str) -> ApprovalRow | None:
        sql = "SELECT doc FROM approvals WHERE tenant = ? AND id = ?"
        return self.doc(_read_approval, sql, (tenant, approval_id))

    def put_approval(self, row: ApprovalRow) -> None:
        self.write(
            "INSERT INTO approvals (tenant, id, run_id, state, requested_at, doc) "
            "VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (tenant, id) DO UPDATE SET "
            "state = excluded.state, doc = excluded.doc",
            (row.tenant, row.id, row.run_id, row.state, row.requested_at, encode(row)),
        )

    def oldest_approvals(
        self, tenant: str, *, run_id: str | None, is_pending_only: bool
    ) -> Iterable[ApprovalRow]:
        only = "AND state = 'pending' " if is_pending_only else ""
        run = "AND run_id = ? " if run_id is not None else ""
        sql = f"SELECT doc FROM approvals WHERE tenant = ? {run}{only}ORDER BY requested_at, id"
        parameters = (tenant,) if run_id is None else (tenant, run_id)
        return self.docs(_read_approval, sql, parameters)

    def question(self, tenant: str, question_id: str) -> QuestionRow | None:
        sql = "SELECT doc FROM questions WHERE tenant = ? AND id = ?"
        return self.doc(_read_question, sql, (tenant, question_id))

    def put_question(self, row: QuestionRow) -> None:
        self.write(
            "INSERT INTO questions (tenant, id, run_id, state, doc) VALUES (?, ?, ?, ?, ?) "
            "ON CONFLICT (tenant, id) DO UPDATE SET state = excluded.state, doc = excluded.doc",
            (row.tenant, row.id, row.run_id, row.state, encode(row)),
        )

    def questions_of(self, tenant: str, run_id: str) -> Sequence[QuestionRow]:
        sql = "SELECT doc FROM questions WHERE tenant = ? AND run_id = ? ORDER BY id"
        return [_read_question(row[0]) for row in self.all(sql, (tenant, run_id))]

    def signals(self, tenant: str, run_id: str) -> Sequence[Signal]:
        sql = "SELECT doc FROM signals WHERE tenant = ? AND run_id = ? ORDER BY id"
        return [_read_signal(row[0]) for row in self.all(sql, (tenant, run_id))]

    def add_signal(self, tenant: str, run_id: str, signal: Signal) -> Signal:
        sql = "UPDATE marks SET value = value + 1 WHERE name = 'signal' RETURNING value"
        self.writes += 1
        row = self.one(sql, ())
        if row is None:
            raise LookupError("signal")
        stored = replace(signal, id=int(row[0]))
        self.write(
            "INSERT INTO signals (tenant, run_id, id, doc) VALUES (?, ?, ?, ?)",
            (tenant, run_id, stored.id, encode(stored)),
        )
        return stored

    def drop_signals(self, tenant: str, run_id: str, ids: Iterable[int]) -> None:
        for signal_id in ids:
            self.write(
                "DELETE FROM signals WHERE tenant = ? AND run_id = ? AND id = ?",
                (tenant, run_id, signal_id),
            )

    def holds(self) -> Sequence[HoldRow]:
        if self._holds is None:
            sql = "SELECT doc FROM holds ORDER BY tenant, agent"
            self._holds = [_read_hold(row[0]) for row in self.all(sql, ())]
        return self._holds

    def put_hold(self, row: HoldRow) -> None:
        self._holds = None
        self.write(
            "INSERT INTO holds (tenant, agent, doc) VALUES (?, ?, ?) "
            "ON CONFLICT (tenant, agent) DO UPDATE SET doc = excluded.doc",
            (row.tenant, row.agent, encode(row)),
        )

    def drop_hold(self, tenant: str, agent: str) -> None:
        self._holds = None
        self.write("DELETE FROM holds WHERE tenant = ? AND agent = ?", (tenant, agent))
