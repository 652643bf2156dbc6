"""Somebody with all rights on the bus and without the signing key."""

import itertools
import random
from collections.abc import Callable

import anyio
from msgspec.structs import replace

from messages import subjects
from messages.authority import Grant, GrantedAction
from messages.canon import action_hash
from messages.codec import decode, encode
from messages.errors import TreadleError
from messages.execution import Execute
from messages.parts import Action
from runtime.bus.bus import WireBus
from runtime.policy.grants import Signer
from tests.simulation.agents import ROGUE

_FORGER = Signer(b"\x07" * 32)
_TENANT = "default"
_numbers = itertools.count(1)


async def act(bus: WireBus, chance: random.Random, now: Callable[[], float]) -> None:
    """Send what was never allowed, and send again what was allowed once."""
    everything = bus.subscribe(f"{subjects.ROOT}.rpc.executor.>")
    async with everything as heard, anyio.create_task_group() as tasks:
        tasks.start_soon(_forge, bus, chance, now)
        async for delivery in heard:
            request = decode(delivery.data)
            if isinstance(request, Execute):
                tasks.start_soon(_repeat, bus, request, chance.uniform(0.5, 8.0), now)


async def _repeat(bus: WireBus, request: Execute, after_s: float, now: Callable[[], float]) -> None:
    await anyio.sleep(after_s)
    await _send(bus, request, now)


async def _forge(bus: WireBus, chance: random.Random, now: Callable[[], float]) -> None:
    while True:
        await anyio.sleep(chance.uniform(0.3, 3.0))
        arguments = {"what": ROGUE}
        hashed = action_hash("look", arguments, None)
        action = Action(ordinal=0, tool="look", arguments=arguments, action_hash=hashed)
        grant = Grant(
            id="gr-forged",
            tenant=_TENANT,
            run_id="r0",
            step=1,
            actions=(GrantedAction(ordinal=0, tool="look", action_hash=hashed),),
            expires_at=now() + 60.0,
        )
        signed = chance.choice((_FORGER.sign(grant), replace(grant, signature="AAAA"), grant))
        request = Execute(
            tenant=_TENANT,
            run_id="r0",
            principal="rogue",
            agent="clerk",
            step=1,
            action=action,
            grant=signed,
            now=now(),
            evidence_id="E-666",
        )
        await _send(bus, request, now)


async def _send(bus: WireBus, request: Execute, now: Callable[[], float]) -> None:
    reply = f"_INBOX_rogue.{next(_numbers)}.{int(now() * 1000) + 10_000}"
    try:
        await bus.publish(subjects.rpc(request), encode(request), reply=reply)
    except TreadleError:
        return
