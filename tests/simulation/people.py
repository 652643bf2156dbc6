"""Everybody outside: who submits, decides, answers, cancels and pauses."""

import random
from typing import Any

import anyio
import msgspec

from messages import subjects
from messages.codec import encode
from messages.errors import TreadleError
from messages.task import Task, TaskLimits
from runtime.bus.bus import WireBus
from tests.simulation import rogue
from tests.simulation.agents import AGENT, APPROVAL_S, plan_of
from tests.simulation.judge import TENANT
from tests.simulation.machine import Process
from tests.simulation.network import connect
from tests.simulation.options import Job
from tests.simulation.world import SimIds, World

_ASK_S = 2.0
_PAUSED_S = 2.0
ASKED = {"gift", "parallel", "approved"}
"""Kinds of which a person has to allow something."""
_STEPS = {"poor": 2, "once": 1}
_TOKENS = {"thrifty": 9_000}


class People:
    """What people do, over the public API and the task stream."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._chance = world.options.chance("people")
        self._jobs = {job.name: job for job in world.options.jobs}

    async def act(self, process: Process) -> None:
        """Live until the world ends."""
        world = self._world
        chance = random.Random(f"{world.options.seed}.wire")
        ids = SimIds(process)
        connection = connect(world.network, process, world.clock, ids, chance)
        async with connection as bus, anyio.create_task_group() as tasks:
            for job in self._jobs.values():
                for _ in range(job.copies):
                    tasks.start_soon(self._submit, bus, job)
                tasks.start_soon(self._meddle, bus, job)
            if any(job.kind in ASKED for job in self._jobs.values()):
                tasks.start_soon(self._decide, bus)
            tasks.start_soon(self._answer, bus)
            if world.options.has_rogue:
                tasks.start_soon(rogue.act, bus, self._chance, world.clock.now)

    # ------------------------------------------------------------------ submitting
    async def _submit(self, bus: WireBus, job: Job) -> None:
        await anyio.sleep(job.at_s + self._chance.random() * 0.2)
        while not await self._is_taken(bus, job):  # noqa: ASYNC110 -- as people do
            await anyio.sleep(0.5)
        self._world.judge.note(f"told {job.name}")
        self._world.told.add(job.name)

    async def _is_taken(self, bus: WireBus, job: Job) -> bool:
        task = Task(
            goal=job.name,
            run_id=job.name,
            inputs={"plan": msgspec.to_builtins(plan_of(job)), "asks": job.kind == "ask"},
            limits=TaskLimits(max_steps=_STEPS.get(job.kind), max_tokens=_TOKENS.get(job.kind)),
        )
        if job.is_direct:
            body = {"agent": AGENT.name, **msgspec.to_builtins(task)}
            del body["reply_to"]  # whoever asks directly is told directly
            reply = await self._api(bus, "submitter", "submit", body)
            return reply is not None and "error" not in reply
        subject = subjects.task(TENANT, "submitter", AGENT.name)
        try:
            await bus.publish_durable(subject, encode(task), message_id=f"{job.name}")
        except TreadleError:
            return False
        return True

    async def _api(
        self, bus: WireBus, who: str, verb: str, body: dict[str, Any]
    ) -> dict[str, Any] | None:
        subject = subjects.api(TENANT, who, verb)
        try:
            data = await bus.request(subject, msgspec.json.encode(body), timeout_s=_ASK_S)
        except TreadleError:
            return None
        reply: dict[str, Any] = msgspec.json.decode(data)
        return reply

    async def _surely(self, bus: WireBus, who: str, verb: str, body: dict[str, Any]) -> None:
        """Ask until there is an answer that stands."""
        while True:
            reply = await self._api(bus, who, verb, body)
            if reply is not None and not reply.get("error", {}).get("retryable"):
                return
            await anyio.sleep(0.5)

    # ------------------------------------------------------------------ meddling
    async def _meddle(self, bus: WireBus, job: Job) -> None:
        if job.cancel_s:
            await anyio.sleep(job.cancel_s)
            await self._surely(bus, "operator", "cancel", {"run_id": job.name, "reason": "whim"})
        elif job.pause_s:
            await anyio.sleep(job.pause_s)
            await self._surely(bus, "operator", "pause", {"run_id": job.name})
            await anyio.sleep(_PAUSED_S)
            await self._surely(bus, "operator", "resume", {"run_id": job.name})

    async def _decide(self, bus: WireBus) -> None:
        """Look at what is asked, every now and then."""
        seen: dict[str, float] = {}
        while True:
            await anyio.sleep(0.5 + self._chance.random())
            listed = await self._api(bus, "approver", "approvals", {})
            for row in (listed or {}).get("approvals", ()):
                job = self._jobs.get(row["run_id"])
                now = self._world.machine.time()
                if self._is_ready(job, now - seen.setdefault(row["run_id"], now)):
                    await self._say(bus, row["id"], refuses=job is not None and job.refuses)

    def _is_ready(self, job: Job | None, waited_s: float) -> bool:
        if job is None:
            return True
        return not job.ignores and (not job.dawdles or waited_s > APPROVAL_S - 2.0)

    async def _say(self, bus: WireBus, approval_id: str, *, refuses: bool) -> None:
        body = {"approval_id": approval_id, "reason": "no" if refuses else ""}
        for _ in range(self._chance.choice((1, 1, 2))):  # some click twice
            _ = await self._api(bus, "approver", "deny" if refuses else "approve", body)

    async def _answer(self, bus: WireBus) -> None:
        """Go on with the runs that ended with a question."""
        asking = [job.name for job in self._jobs.values() if job.kind == "ask"]
        while asking:
            await anyio.sleep(1.0)
            for name in list(asking):
                body = {"run_id": name, "answer": "this"}
                reply = await self._api(bus, "approver", "answer", body)
                if reply is not None and "error" not in reply:
                    asking.remove(name)
