"""The payments service as a child process of a test, and a client of it that hides nothing."""

import http.client
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

MODULE = "treadle.examples.refunds.payments"
REFUND = {"order_id": "8472", "payment_id": "pay_5a2", "amount_inr": 2000}
KEY = "refund:order-8472:pay_5a2:v1"


@dataclass
class Service:
    """A running service and a client that hides nothing."""

    folder: Path
    process: subprocess.Popen[bytes]
    url: str

    def ask(
        self, method: str, path: str, body: object = None, *, key: str | None = None
    ) -> tuple[int, Any]:
        connection = http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=10)
        try:
            headers = {} if key is None else {"Idempotency-Key": key}
            content = json.dumps({} if body is None else body)
            connection.request(method, path, content, headers)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()

    def refund(self, key: str | None = KEY, **changes: object) -> tuple[int, Any]:
        return self.ask("POST", "/refunds", REFUND | changes, key=key)

    def control(self, **settings: object) -> None:
        status, answer = self.ask("POST", "/control", settings)
        assert status == 200, answer

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(timeout=10)


def effects(folder: Path) -> list[dict[str, Any]]:
    """What the judge's file says."""
    return [json.loads(line) for line in (folder / "payments.jsonl").read_bytes().splitlines()]


def until(check: Callable[[], object], seconds: float = 10.0) -> None:
    """Wait for another process to get somewhere."""
    for _ in range(int(seconds / 0.02)):
        if check():
            return
        time.sleep(0.02)
    raise TimeoutError("did not happen in time")


@contextmanager
def running(folder: Path, **environment: str) -> Generator[Service]:
    """A service on this folder, killed at the end."""
    command = [sys.executable, "-m", MODULE, "--data-dir", str(folder)]
    output = subprocess.PIPE
    with subprocess.Popen(
        command, env=os.environ | environment, stdout=output, stderr=output
    ) as process:
        try:
            assert process.stdout is not None
            ready = process.stdout.readline().decode()
            assert ready.startswith("payments service ready at "), ready
            yield Service(folder, process, ready.split()[-1])
        finally:
            process.kill()
