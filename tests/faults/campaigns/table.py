"""The campaigns by name, and how one is played."""

import sys
import traceback
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any, Final

import anyio

from tests.faults.campaigns import aside, broker, leaving, notice, outage, races, resume
from tests.faults.campaigns.tally import Tally

Play = Callable[[Path, Tally, bool], Awaitable[None]]
"""One round in an empty folder; True: with fewer runs, for a short check."""
_ROUND_S: Final = 240.0


@dataclass(frozen=True, kw_only=True)
class Campaign:
    """One kind of world under one fault."""

    name: str
    play: Play
    rounds: int = 1
    """At least so many, however many trials are asked for."""


def _all() -> tuple[Campaign, ...]:
    owners = [Campaign(name=f"owners.{n}", play=partial(races.play, n)) for n in (2, 3, 5)]
    notices = [
        Campaign(name=f"notice.{role}", play=partial(notice.play, role)) for role in notice.POINTS
    ]
    return (
        *owners,
        Campaign(name="nats.killed", play=broker.killed),
        Campaign(name="nats.restarted", play=broker.restarted),
        Campaign(name="nats.away", play=broker.away),
        Campaign(name="nats.wiped", play=broker.wiped),
        Campaign(name="poison", play=aside.poison),
        Campaign(name="paused", play=aside.paused),
        Campaign(name="handover", play=leaving.handover),
        Campaign(name="continue.orchestrator", play=leaving.continued),
        *notices,
        Campaign(name="outage", play=outage.play),
        Campaign(name="resume.100", play=resume.play, rounds=5),
    )


CAMPAIGNS: Final = _all()


def chosen(patterns: list[str]) -> list[Campaign]:
    """The campaigns that fit one of the patterns; all where there is none."""
    if not patterns:
        return list(CAMPAIGNS)
    return [c for c in CAMPAIGNS if any(fnmatchcase(c.name, pattern) for pattern in patterns)]


async def play(campaign: Campaign, folder: Path, trials: int, *, is_short: bool) -> dict[str, Any]:
    """The row of one campaign."""
    tally = Tally()
    for number in range(trials if is_short else max(trials, campaign.rounds)):
        place = folder / f"round-{number + 1}"
        await anyio.Path(place).mkdir(parents=True)
        tally.trials += 1
        try:
            with anyio.fail_after(_ROUND_S):
                await campaign.play(place, tally, is_short)
            tally.succeeded += 1
        except TimeoutError:
            tally.wedged += 1
            tally.notes.append(f"round {number + 1} had not ended after {_ROUND_S:g} s")
            sys.stderr.write(traceback.format_exc())
        except Exception as error:  # noqa: BLE001 -- the other campaigns go on
            tally.errors += 1
            tally.notes.append(f"round {number + 1}: {type(error).__name__}: {error}"[:500])
            sys.stderr.write(traceback.format_exc())
    return tally.row()
