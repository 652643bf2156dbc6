"""Telling people that they are needed: the log, a webhook, a command."""

import http.client
import subprocess
from urllib.parse import urlsplit

import anyio
import anyio.to_thread

from messages import subjects
from runtime.bus.port import Bus, Delivery
from runtime.bus.presence import Presence
from runtime.faults import fault
from runtime.log import Level, Line, describe, log
from runtime.settings import Notify
from runtime.supervisor import ChildSpec, Phase

_FEEDS = (f"{subjects.ROOT}.approvals.*.*.requested", f"{subjects.ROOT}.questions.*.*.asked")


class Notifier:
    """Passes approvals and questions on.

    Receives: the approvals and questions feeds, one copy per queue group.
    Guarantees: a notification that fails is logged and never stops a run; the inbox in the ledger
    is the record, and what is sent holds ids, never arguments.
    """

    role = "notifier"

    def __init__(self, bus: Bus, settings: Notify) -> None:
        """Args: bus: the process's connection; settings: where to send."""
        self._bus = bus
        self._settings = settings
        self._presence = Presence(role=self.role, subject=" ".join(_FEEDS))

    async def run(self) -> None:
        """Pass on until cancelled."""
        async with self._bus.listed(self._presence), anyio.create_task_group() as tasks:
            for feed in _FEEDS:
                tasks.start_soon(self._follow, feed)

    async def drain(self, phase: Phase) -> None:
        """Nothing is owned."""
        del phase

    async def _follow(self, feed: str) -> None:
        async with self._bus.subscribe(feed, queue=self.role) as deliveries:
            async for delivery in deliveries:
                await self._notify(delivery)

    async def _notify(self, delivery: Delivery) -> None:
        fault("notifier.before_notify")
        self._presence.served += 1
        if self._settings.log:
            log(Line.NOTIFIED, subject=delivery.subject)
        try:
            with anyio.fail_after(self._settings.timeout_s):
                if self._settings.command:
                    await self._run_command(delivery.data)
                if self._settings.webhook:
                    await anyio.to_thread.run_sync(
                        self._post, delivery.data, abandon_on_cancel=True
                    )
        except (OSError, TimeoutError, subprocess.SubprocessError, http.client.HTTPException) as e:
            self._presence.failed += 1
            log(Line.NOTIFY_FAILED, Level.WARNING, subject=delivery.subject, **describe(e))

    async def _run_command(self, data: bytes) -> None:
        _ = await anyio.run_process(list(self._settings.command), input=data, check=True)

    def _post(self, data: bytes) -> None:
        url = urlsplit(self._settings.webhook)
        kind = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
        connection = kind(url.hostname or "", url.port, timeout=self._settings.timeout_s)
        try:
            path = url.path or "/"
            connection.request("POST", path, data, {"Content-Type": "application/json"})
            status = connection.getresponse().status
        finally:
            connection.close()
        if status >= http.client.BAD_REQUEST:
            raise http.client.HTTPException(f"the webhook answered {status}")

    @property
    def spec(self) -> ChildSpec:
        """How the supervisor runs it."""
        return ChildSpec(name=self.role, run=self.run, drain=self.drain)
