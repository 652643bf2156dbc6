"""The front of the payments service: counts each request, makes it suffer its faults, answers.

``cashier`` answers what a payments service is asked. The requests about the service itself are
answered here and never show a fault: ``GET /healthz`` (who it is), ``GET /stats`` (requests
counted by path and by key), ``GET`` or ``POST /control`` (the faults it shows), ``POST /stop``.
"""

import os
import threading
import time
from collections import Counter
from collections.abc import Mapping
from typing import Final, final

from treadle.examples.refunds.cashier import Answer, Asked, Cashier, RefusedError
from treadle.examples.refunds.faults import BadFaultError, FaultBoard, Faults
from treadle.examples.refunds.place import SERVICE

_ROOMS: Final = frozenset({"orders", "refunds", "notifications", "effects", "policy"})


@final
class Desk:
    """Where every request arrives. Safe to use from many threads."""

    def __init__(self, cashier: Cashier, faults: FaultBoard) -> None:
        self.is_asked_to_stop = False
        self._cashier = cashier
        self._faults = faults
        self._counts: dict[str, Counter[str]] = {
            name: Counter() for name in ("requests", "keys", "lookups")
        }
        self._counts_lock = threading.Lock()

    def respond(self, asked: Asked) -> Answer | None:
        """Answer one request.

        Returns:
            The answer; None where a fault asks for the reply to be lost.
        """
        if asked.path[0] not in _ROOMS:
            return self._about_itself(asked)
        self._count(asked)
        faults = self._faults.take(asked.method, "/" + "/".join(asked.path))
        time.sleep(faults.delay_before_s)
        answer = self._carry_out(asked, faults)
        time.sleep(faults.delay_after_s)
        return None if faults.lose_reply else answer

    def _carry_out(self, asked: Asked, faults: Faults) -> Answer:
        if faults.error:
            return RefusedError(faults.error_status, "fault", "told to fail").as_answer()
        try:
            return self._cashier.answer(asked, honour_keys=faults.honour_keys)
        except RefusedError as refused:
            return refused.as_answer()
        except OSError as error:
            return RefusedError(500, "not_durable", str(error)).as_answer()

    def _about_itself(self, asked: Asked) -> Answer:
        match asked.method, asked.path:
            case "GET", ("healthz",):
                return Answer(content={"service": SERVICE, "pid": os.getpid()})
            case "GET", ("stats",):
                return Answer(content=self._stats())
            case (("GET" | "POST"), ("control",)):
                return self._control(asked.body)
            case "POST", ("stop",):
                self.is_asked_to_stop = True
                return Answer(content={"stopping": True})
            case _:
                return RefusedError(404, "no_such_path", "nothing is served here").as_answer()

    def _control(self, settings: Mapping[str, object]) -> Answer:
        try:
            self._faults.update(settings)
        except BadFaultError as error:
            return RefusedError(400, "bad_fault", str(error)).as_answer()
        return Answer(content={"faults": self._faults.show()})

    def _stats(self) -> dict[str, dict[str, int]]:
        with self._counts_lock:
            return {name: dict(counts) for name, counts in self._counts.items()}

    def _count(self, asked: Asked) -> None:
        with self._counts_lock:
            self._counts["requests"][f"{asked.method} /{asked.path[0]}"] += 1
            match asked.method, asked.path:
                case "POST", _ if asked.key:
                    self._counts["keys"][asked.key] += 1
                case "GET", ("refunds" | "notifications" | "effects", key):
                    self._counts["lookups"][key] += 1
                case _:
                    pass
