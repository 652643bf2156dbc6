"""Tables over one SQLite connection."""

from runtime.ledger.sqlite_tables.effects import ArtifactTables, EffectTables
from runtime.ledger.sqlite_tables.people import PeopleTables
from runtime.ledger.sqlite_tables.runs import ProcessTables, RunTables


class SqliteTables(RunTables, ProcessTables, EffectTables, ArtifactTables, PeopleTables):
    """Implements ``Tables``."""
