"""Reading a data directory without a daemon gives what the daemon would have said."""

from pathlib import Path

import pytest

from messages.errors import NotFound
from messages.ledger import AnyLedgerRequest, Create, Keep
from runtime.clock import MachineClock
from runtime.ledger.sqlite import SqliteLedger
from runtime.loop.summary import summarise
from tests import journals
from tests.journals import PACKAGE, PACKAGE_HASH, RUN
from treadle.offline import open_data


async def fill(data_dir: Path) -> None:
    ledger = await SqliteLedger.open(data_dir / "ledger.db", MachineClock().now)
    first = journals.journal()[0]
    operations: list[AnyLedgerRequest] = [
        Create(
            tenant="default",
            run_id=RUN,
            append_id="apd-0",
            events=first.events,
            summary=summarise(journals.state_at(0)),
        ),
        Keep(tenant="default", sha256=PACKAGE_HASH, data=PACKAGE),
    ]
    await ledger.apply(operations)
    await ledger.close()


async def test_runs_are_read_from_the_file(data_dir: Path) -> None:
    await fill(data_dir)
    async with open_data(data_dir) as offline:
        run = await offline.show(RUN)
        assert (run["status"], run["version"]) == ("QUEUED", 0)
        assert [row["run_id"] for row in (await offline.list())["runs"]] == [RUN]
        page = await offline.events(RUN)
        assert [line["kind"] for line in page["events"]] == ["run_created", "step_reserved"]
        assert (await offline.approvals())["approvals"] == []
        assert (await offline.effects())["effects"] == []
        with pytest.raises(NotFound):
            await offline.show("nobody")
        with pytest.raises(NotFound):
            await offline.effects(key="nothing")


async def test_another_tenant_sees_nothing(data_dir: Path) -> None:
    await fill(data_dir)
    async with open_data(data_dir / "ledger.db", tenant="acme") as offline:
        assert (await offline.list())["runs"] == []
        with pytest.raises(NotFound):
            await offline.show(RUN)


async def test_a_directory_without_a_ledger(data_dir: Path) -> None:
    with pytest.raises(NotFound, match="ledger"):
        async with open_data(data_dir):
            pass
