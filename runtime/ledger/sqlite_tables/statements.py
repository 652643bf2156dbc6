"""How the tables talk to SQLite: one cursor, cached statements, rows that are documents.

A statement is put together from constants only, in a few dozen ways, so that the driver's statement
cache prepares each once.
"""

import sqlite3
from collections.abc import Callable, Iterator
from typing import TypeVar

import msgspec

from runtime.ledger.rows import Row

T = TypeVar("T")

encode = msgspec.json.Encoder().encode


class Statements:
    """One connection inside the transaction its owner has opened.

    Attributes:
        writes: Statements that changed something since ``begin``; 0: nothing to roll back.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        """Args: connection: in autocommit mode; its owner begins and commits."""
        super().__init__()
        self._db = connection
        self._cursor = connection.cursor()
        self.writes: int = 0

    def begin(self) -> None:
        """A new transaction: nothing read before it counts any more."""
        self.writes = 0

    def one(self, sql: str, parameters: tuple[object, ...]) -> Row | None:
        """The first row."""
        return self._cursor.execute(sql, parameters).fetchone()

    def all(self, sql: str, parameters: tuple[object, ...]) -> list[Row]:
        """Every row at once."""
        return self._cursor.execute(sql, parameters).fetchall()

    def each(self, sql: str, parameters: tuple[object, ...]) -> Iterator[Row]:
        """Row by row, on a cursor of its own: the reader may ask for others between two of them."""
        return self._db.execute(sql, parameters)

    def write(self, sql: str, parameters: tuple[object, ...]) -> None:
        """Change something."""
        self.writes += 1
        self._cursor.execute(sql, parameters)

    def doc(self, read: Callable[[bytes], T], sql: str, parameters: tuple[object, ...]) -> T | None:
        """The document of the first row."""
        row = self.one(sql, parameters)
        return None if row is None else read(row[0])

    def docs(
        self, read: Callable[[bytes], T], sql: str, parameters: tuple[object, ...]
    ) -> Iterator[T]:
        """The document of each row."""
        return (read(row[0]) for row in self.each(sql, parameters))
