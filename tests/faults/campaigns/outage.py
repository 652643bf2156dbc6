"""outage: the provider answers 529 for a minute while work keeps coming, and is mended.

What it is asked in that minute is compared with what a provider that works would have been asked.
"""

import time
from pathlib import Path
from typing import Any, Final

import anyio

from messages.status import Status
from tests.cases.place import PATIENCE_S
from tests.fakes.provider import KEY, FakeProvider, Refuse, Reply, Say, listening, text
from tests.faults.campaigns.tally import Tally
from tests.system.conftest import QUICK
from tests.system.daemon import Daemon
from treadle import Client

OUTAGE_S: Final = 60.0
SHORT_S: Final = 6.0
EVERY_S: Final = 0.25
"""A run is submitted so often; each would ask once."""
SHARE: Final = 1.1
"""Of what is offered: GUARANTEES.md G20."""
PROBES_S: Final = (5.0, 15.0, 35.0, 75.0)
"""When a breaker that opened at 0 lets a probe pass."""
BACK_S: Final = 120.0
ENV: Final = {"PYTHONPATH": str(Path(__file__).parents[3]), **QUICK}


class Overloaded(FakeProvider):
    """Turns everything down until it is mended.

    Attributes:
        turned_down: So many requests.
    """

    def __init__(self) -> None:
        super().__init__(())
        self.is_down = True
        self.turned_down = 0

    def reply_to(self, body: dict[str, Any], headers: dict[str, str]) -> Reply:
        """See ``FakeProvider``."""
        del body, headers
        if not self.is_down:
            return Say(blocks=[text("ok")])
        self.turned_down += 1
        return Refuse(status=529, type="overloaded_error")


async def play(folder: Path, tally: Tally, is_short: bool) -> None:
    """One outage."""
    lasts_s = SHORT_S if is_short else OUTAGE_S
    fake = Overloaded()
    async with listening(fake):
        env = {**ENV, "ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": fake.url}
        daemon = Daemon(
            folder / "data", app="tests.cases.apps.b35:app", env=env, model="claude-opus-5-5"
        )
        await anyio.Path(daemon.data_dir).mkdir(mode=0o700)
        try:
            await daemon.up()
            await _suffer(daemon, fake, tally, lasts_s)
        finally:
            await daemon.close()


async def _suffer(daemon: Daemon, fake: Overloaded, tally: Tally, lasts_s: float) -> None:
    runs: list[str] = []
    async with Client.connect(daemon.data_dir, user="submitter") as client:
        for number in range(int(lasts_s / EVERY_S)):
            await client.submit("b35", "Go.", run_id=f"run-{number}")
            runs.append(f"run-{number}")
            await anyio.sleep(EVERY_S)
    probes = sum(at < lasts_s for at in PROBES_S)
    tally.count(offered=len(runs), calls=fake.turned_down, probes=probes)
    tally.fired += fake.turned_down > 0
    if fake.turned_down > SHARE * len(runs) + probes:
        tally.wrong(f"{fake.turned_down} calls for {len(runs)} that were offered")
    fake.is_down, mended = False, time.time()
    ended = await _ends(daemon, runs)
    tally.took("recovered", time.time() - mended)
    good = sum(status == Status.SUCCEEDED for status in ended.values())
    tally.count(runs=len(runs), succeeded=good, gave_up=len(runs) - good)


async def _ends(daemon: Daemon, runs: list[str]) -> dict[str, str]:
    """How each of them ended; one that has had its four attempts may have failed."""
    with anyio.fail_after(BACK_S):
        async with Client.connect(daemon.data_dir, user="operator") as client:
            while True:
                open_ones = await client.list(limit=500)
                if not open_ones["runs"]:
                    break
                await anyio.sleep(PATIENCE_S / 100)
            return {run_id: (await client.show(run_id))["status"] for run_id in runs}
