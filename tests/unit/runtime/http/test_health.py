from http import HTTPStatus

import anyio
import pytest

from messages.errors import NoResponders
from runtime.clock import FakeClock
from runtime.http import health as module
from runtime.http.health import Health
from runtime.http.server import HttpRequest
from runtime.supervisor import Phase


class Checks:
    """One check whose answer a test changes."""

    def __init__(self) -> None:
        self.problem: str | Exception | None = None
        self.asked = 0

    async def __call__(self) -> str | None:
        self.asked += 1
        if isinstance(self.problem, Exception):
            raise self.problem
        if self.problem == "hangs":
            await anyio.sleep_forever()
        return self.problem


def made() -> tuple[Health, Checks, FakeClock]:
    checks, clock = Checks(), FakeClock()
    return Health(listen="127.0.0.1:0", checks={"ledger": checks}, clock=clock), checks, clock


async def get(health: Health, path: str, query: str = "") -> tuple[HTTPStatus, str]:
    answer = await health.handle(HttpRequest(path=path, query=query))
    return answer.status, answer.body.decode()


async def test_it_is_alive_from_the_start_and_ready_once_it_is_up() -> None:
    health, checks, _ = made()
    assert await get(health, "/livez") == (HTTPStatus.OK, "ok\n")
    starting = (HTTPStatus.SERVICE_UNAVAILABLE, "serving: starting\nnot ready\n")
    assert await get(health, "/readyz") == starting
    assert checks.asked == 0
    health.is_up()
    assert await get(health, "/readyz") == (HTTPStatus.OK, "ok\n")
    assert await get(health, "/readyz", "verbose") == (HTTPStatus.OK, "[+] ledger\nok\n")


async def test_it_is_not_ready_while_it_drains_and_still_alive() -> None:
    health, _, _ = made()
    health.is_up()
    await health.drain(Phase.STOP_TAKING)
    assert (await get(health, "/readyz"))[0] is HTTPStatus.SERVICE_UNAVAILABLE
    assert (await get(health, "/livez"))[0] is HTTPStatus.OK


@pytest.mark.parametrize("problem", ["role x is gone", NoResponders("nobody serves it")])
async def test_a_check_that_fails_says_what(problem: str | Exception) -> None:
    health, checks, _ = made()
    health.is_up()
    checks.problem = problem
    status, text = await get(health, "/readyz", "verbose=1")
    assert status is HTTPStatus.SERVICE_UNAVAILABLE
    assert f"[-] ledger: {problem}" in text


async def test_a_check_that_hangs_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHECK_S", 0.02)
    health, checks, _ = made()
    health.is_up()
    checks.problem = "hangs"
    assert "no answer within" in (await get(health, "/readyz"))[1]


async def test_many_probes_cost_as_much_as_one() -> None:
    health, checks, clock = made()
    health.is_up()
    for _ in range(5):
        await get(health, "/readyz")
    assert checks.asked == 1
    checks.problem = "gone"
    clock.advance(module.FRESH_S + 0.1)
    assert (await get(health, "/readyz"))[0] is HTTPStatus.SERVICE_UNAVAILABLE


async def test_nothing_else_is_served() -> None:
    health, _, _ = made()
    assert (await get(health, "/"))[0] is HTTPStatus.NOT_FOUND
