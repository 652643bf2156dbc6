"""Folded journals that an actor keeps of the runs it served: a cache, never a source.

A request names the version it is about and brings the newest entries; what is missing is loaded
from the ledger. So a step costs an actor the same at iteration 10 and 1,000, and an actor that
never saw the run, or saw it long ago, comes to the same value.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

from messages.errors import NotFound, StorageError
from messages.ledger import Entry, Load, Loaded
from messages.state import LoopState
from runtime.asking import Asking
from runtime.loop.evolve import fold_entry

ValueT = TypeVar("ValueT")

CAPACITY = 1024
"""Runs kept per actor; the least recently used one goes first."""


class JournalCache(Generic[ValueT]):
    """One value per run, folded entry by entry."""

    def __init__(
        self,
        asking: Asking,
        fold: Callable[[ValueT | None, Entry], ValueT],
        version_of: Callable[[ValueT], int],
        *,
        capacity: int = CAPACITY,
    ) -> None:
        """Fold with ``fold``.

        Args:
            asking: for what has to be loaded.
            fold: the value after one more entry.
            version_of: the version of the last entry in a value.
            capacity: runs kept.
        """
        self._asking = asking
        self._fold = fold
        self._version_of = version_of
        self._capacity = capacity
        self._values: OrderedDict[tuple[str, str], ValueT] = OrderedDict()

    async def at(
        self, tenant: str, run_id: str, version: int, tail: tuple[Entry, ...] = ()
    ) -> ValueT:
        """The value of a run at a version.

        Args:
            tenant: whose run.
            run_id: which run.
            version: which version; every one up to it is durable.
            tail: newest entries, as far as the asker has them.

        Raises:
            NotFound: there is no such run.
            StorageError: the journal ends before that version.
            GiveUp: the ledger does not answer.
        """
        key = (tenant, run_id)
        value = self._values.get(key)
        if value is not None and self._version_of(value) > version:
            value = None  # an older owner asks: start over, the cache may not run ahead
        have = -1 if value is None else self._version_of(value)
        entries = [entry for entry in tail if have < entry.version <= version]
        if have + len(entries) < version or (entries and entries[0].version != have + 1):
            entries = await self._load(tenant, run_id, have, version)
        for entry in entries:
            value = self._fold(value, entry)
        if value is None:
            raise StorageError(f"run {run_id} has no entry up to version {version}")
        self._keep(key, value)
        return value

    async def _load(self, tenant: str, run_id: str, after: int, upto: int) -> list[Entry]:
        entries: list[Entry] = []
        while after < upto:
            answer = await self._asking.again(
                Load(tenant=tenant, run_id=run_id, after=after, upto=upto)
            )
            if not isinstance(answer, Loaded):
                raise NotFound("run", run_id)
            if not answer.entries:
                raise StorageError(f"run {run_id} ends at version {after}, not {upto}")
            entries.extend(answer.entries)
            after = entries[-1].version
        return entries

    def _keep(self, key: tuple[str, str], value: ValueT) -> None:
        self._values[key] = value
        self._values.move_to_end(key)
        while len(self._values) > self._capacity:
            _ = self._values.popitem(last=False)


class StateCache(JournalCache[LoopState]):
    """Folded LoopStates."""

    def __init__(self, asking: Asking, *, capacity: int = CAPACITY) -> None:
        """Args: asking: for what has to be loaded; capacity: runs kept."""
        super().__init__(asking, fold_entry, lambda state: state.version, capacity=capacity)
