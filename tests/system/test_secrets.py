"""Planted secrets are looked for in every byte that is kept, sent or shown (GUARANTEES.md G17)."""

import base64
import json
from pathlib import Path
from urllib.parse import quote

import anyio
import anyio.to_thread
import pytest
from nats.aio.msg import Msg

from tests.fakes.provider import Refuse, Say, provider, text, use
from tests.system.apps.leaky import NAME
from tests.system.conftest import QUICK
from tests.system.daemon import Daemon, listen, stream
from tests.system.test_refund import result_of
from treadle import Client

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

ROOT = Path(__file__).parents[2]
KEY = "sk-ant-canary/01+Zz8yYxXwW7"
TOKEN = "pay-canary/02+Qq9rRsStT3"
RUN = "leaky-run"
HOWS = ("transient", "correctable", "unrecoverable", "crash", "stderr", "all")
ECHO = f"the key {KEY} is fine, but {quote(KEY)} and {base64.b64encode(KEY.encode()).decode()} no"


def forms(secret: str) -> list[bytes]:
    """What is looked for: a good part of the secret, plain, in a URL and in base64."""
    inner = [base64.b64encode(b"\0" * n + secret.encode())[4 + 2 * n : -4] for n in range(3)]
    return [secret.encode(), quote(secret).encode(), quote(secret, safe="").encode(), *inner]


CANARIES = [form for secret in (KEY, TOKEN) for form in forms(secret)]


def hits(where: str, data: bytes) -> list[str]:
    return [f"{where}: {form.decode()}" for form in CANARIES if form in data]


def hits_in_files(folder: Path) -> list[str]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert any(path.name == "ledger.db" for path in files)
    assert any(path.suffix == ".log" for path in files)
    return [hit for path in files for hit in hits(path.name, path.read_bytes())]


REPLIES = [
    Refuse(status=529, type="overloaded_error", message=ECHO),
    Refuse(status=500, type="api_error", message=ECHO, headers={"x-echo": KEY}),
    *[
        Say(blocks=[text(f"I know {KEY}"), use("tell", f"t{number}", how=how)])
        for number, how in enumerate(HOWS)
    ],
    Say(blocks=[text(f"It is {KEY}.")]),
]


async def test_no_planted_secret_is_anywhere(data_dir: Path) -> None:
    seen: list[bytes] = []
    async with provider(*REPLIES, key=KEY) as fake:
        env = {
            **QUICK,
            "PYTHONPATH": str(ROOT),
            "ANTHROPIC_API_KEY": KEY,
            "ANTHROPIC_BASE_URL": fake.url,
            NAME: TOKEN,
        }
        daemon = Daemon(
            data_dir, app="tests.system.apps.leaky:app", env=env, model="claude-opus-5-5"
        )
        try:
            await daemon.up()
            shown = await played(daemon, seen)
        finally:
            await daemon.close()
    found = [hit for data in seen for hit in hits("the bus", data)]
    found += [hit for data in shown for hit in hits("shown", data)]
    found += [hit for body in fake.requests for hit in hits("the model", json.dumps(body).encode())]
    found += await anyio.to_thread.run_sync(hits_in_files, data_dir.parent)
    assert found == []
    assert len(seen) > len(REPLIES)
    assert len(fake.requests) == len(REPLIES)
    told = json.dumps(fake.requests[-1])
    assert "a secret was left out" in told, "the model knows that something is missing"
    assert all(headers["authorization"] == f"Bearer {KEY}" for headers in fake.headers)


async def played(daemon: Daemon, seen: list[bytes]) -> list[bytes]:
    """One run under a listener who may hear everything; what is shown of it in the end."""

    async def heard(message: Msg) -> None:
        seen.append(message.data)

    async with daemon.observer() as bus:
        await listen(bus, "treadle.>", heard)
        async with daemon.client("submitter") as client:
            task = json.dumps({"goal": "Go.", "run_id": RUN}).encode()
            await stream(client).publish("treadle.tasks.default.submitter.leaky", task, timeout=5)
            result = await result_of(client, RUN, within_s=60)
        assert result["status"] == "SUCCEEDED", result
        async with Client.connect(daemon.data_dir, user="operator") as client:
            answers = [await client.show(RUN), await client.trace(RUN), await client.events(RUN)]
    return [json.dumps(answer).encode() for answer in (result, *answers)]
