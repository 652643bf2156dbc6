"""The client of the payments service, and opening the shop: real processes throughout."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path

import anyio
import pytest
from anyio.to_thread import run_sync

from tests.system.payments_process import KEY, Service, effects, running, until
from treadle import Correctable, Transient, Unknown, Unrecoverable
from treadle.examples.refunds.launch import NoServiceError
from treadle.examples.refunds.place import Place, try_lock
from treadle.examples.refunds.shop import Shop, open_shop


@pytest.fixture
def service(data_dir: Path) -> Iterator[Service]:
    with running(data_dir) as service:
        yield service


@pytest.fixture
def shop(service: Service) -> Shop:
    return Shop(service.url, place=Place(service.folder), deadline_s=1.0)


@contextlib.asynccontextmanager
async def another(folder: Path) -> AsyncGenerator[Service]:
    """A service that is started while the loop runs."""
    with contextlib.ExitStack() as stack:
        try:
            yield await run_sync(lambda: stack.enter_context(running(folder)))
        finally:
            await run_sync(stack.close)


async def ask(service: Service, **settings: object) -> None:
    await run_sync(lambda: service.control(**settings))


async def test_the_client_reads_and_writes_typed(shop: Shop) -> None:
    order = await shop.order("8472")
    assert [payment.payment_id for payment in order.payments] == ["pay_5a1", "pay_5a2"]
    assert await shop.refund_of("8472", "pay_5a2") is None
    assert await shop.refund_by_key(KEY) is None
    assert (await shop.search_policy("refund")).passages[0].doc == "POL-REF-004"
    made = await shop.refund("8472", "pay_5a2", 2000, key=KEY)
    assert made.refund_id == "rf_9001"
    assert (await shop.refunds("8472")).refunds == [made]
    assert await shop.refund_of("8472", "pay_5a2") == made
    assert await shop.refund_by_key(KEY) == made
    told = await shop.notify("8472", "refund-created", "₹2,000 on its way", key="notify:1")
    assert await shop.notification_by_key("notify:1") == told
    assert await shop.notification_by_key(KEY) is None


@pytest.mark.parametrize(
    ("faults", "read_error", "write_error", "lines"),
    [
        ({"lose_reply": 9}, Transient, Unknown, 1),
        ({"delay_after_s": 3}, Transient, Unknown, 1),
        ({"delay_before_s": 3}, Transient, Unknown, 0),
        ({"error": 9, "error_status": 500}, Transient, Unknown, 0),
        ({"error": 9, "error_status": 503}, Transient, Transient, 0),
        ({"error": 9, "error_status": 429}, Transient, Transient, 0),
        ({"error": 9, "error_status": 403}, Correctable, Correctable, 0),
    ],
)
async def test_a_failure_says_what_is_known(
    service: Service,
    shop: Shop,
    faults: dict[str, object],
    read_error: type[Exception],
    write_error: type[Exception],
    lines: int,
) -> None:
    await ask(service, **faults)
    with pytest.raises(read_error):
        await shop.order("8472")
    with pytest.raises(write_error):
        await shop.refund("8472", "pay_5a2", 2000, key=KEY)
    assert len(await run_sync(effects, service.folder)) == lines


async def test_refusals_name_what_would_help(service: Service, shop: Shop) -> None:
    with pytest.raises(Correctable, match="no order 'none-1'"):
        await shop.order("none-1")
    with pytest.raises(Correctable, match="no such payment"):
        await shop.refund("8472", "pay_x", 2000, key=KEY)
    await shop.refund("8472", "pay_5a2", 2000, key=KEY)
    with pytest.raises(Unrecoverable, match="used before"):
        await shop.refund("8472", "pay_5a1", 2000, key=KEY)
    await ask(service, honour_keys=False)
    with pytest.raises(Unknown):
        await shop.refund_by_key(KEY)


async def test_no_connection_means_that_nothing_happened(service: Service, shop: Shop) -> None:
    await run_sync(service.kill)
    with pytest.raises(Transient):
        await shop.refund("8472", "pay_5a2", 2000, key=KEY)
    assert await run_sync(effects, service.folder) == []


async def test_the_client_follows_a_service_that_was_started_again(
    service: Service, shop: Shop
) -> None:
    made = await shop.refund("8472", "pay_5a2", 2000, key=KEY)
    await run_sync(service.kill)
    async with another(service.folder):
        assert await shop.refund("8472", "pay_5a2", 2000, key=KEY) == made
    assert len(await run_sync(effects, service.folder)) == 1


# ------------------------------------------------------------------------------- opening a shop


@pytest.fixture
def here(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The test's folder as this process's own; whatever service is left there is killed."""
    monkeypatch.setenv("TREADLE_DATA_DIR", str(data_dir))
    yield data_dir
    if (address := Place(data_dir).read_address()) is not None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(address.pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(address.pid, 0)


def pid_of(folder: Path) -> int:
    """The process that the folder's address names."""
    address = Place(folder).read_address()
    assert address is not None
    return address.pid


def is_owned(folder: Path) -> bool:
    """Whether a living service holds the folder's file."""
    fd = try_lock(folder / "payments.jsonl")
    if fd is not None:
        os.close(fd)
    return fd is None


async def test_the_last_to_leave_stops_the_service(here: Path) -> None:
    async with open_shop() as first:
        pid = await run_sync(pid_of, here)
        assert os.getsid(pid) == pid  # out of reach of our terminal's signals
        async with open_shop() as second:
            assert await run_sync(pid_of, here) == pid
            await second.refund("8472", "pay_5a2", 2000, key=KEY)
        assert await run_sync(is_owned, here)
        assert (await first.refunds("8472")).refunds[0].refund_id == "rf_9001"
    assert not await run_sync(is_owned, here)
    assert await run_sync(Place(here).read_address) is None
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)

    async with open_shop() as again:
        assert (await again.refund_by_key(KEY)) is not None
    assert len(await run_sync(effects, here)) == 1


async def test_cancellation_is_an_orderly_end(here: Path) -> None:
    with anyio.CancelScope() as scope:
        async with open_shop():
            scope.cancel()
            await anyio.sleep_forever()
    assert not await run_sync(is_owned, here)


async def test_an_error_leaves_the_service_for_the_next_process(here: Path) -> None:
    async def crash() -> None:
        async with open_shop():
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await crash()
    pid = await run_sync(pid_of, here)
    assert await run_sync(is_owned, here)
    async with open_shop() as shop:
        assert await run_sync(pid_of, here) == pid
        await shop.order("8472")
    assert not await run_sync(is_owned, here)


USER = """
import anyio, sys
from treadle.examples.refunds.shop import open_shop

async def use() -> None:
    async with open_shop() as shop:
        await shop.order("8472")
        print("open", flush=True)
        await anyio.to_thread.run_sync(sys.stdin.read)

anyio.run(use)
"""


def test_the_service_outlives_a_killed_user_and_is_found_again(here: Path) -> None:
    def use() -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, "-c", USER], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert process.stdout is not None
        assert process.stdout.readline() == b"open\n"
        return process

    with use() as killed:
        pid = pid_of(here)
        with use() as leaving:
            killed.kill()
            killed.wait(timeout=10)
            assert pid_of(here) == pid
            assert is_owned(here)
            leaving.communicate(b"", timeout=20)
    assert leaving.returncode == 0
    until(lambda: not is_owned(here))


async def test_a_crowd_that_opens_at_once_shares_one_service(here: Path) -> None:
    seen: list[int] = []
    everyone_is_in = anyio.Event()

    async def use() -> None:
        async with open_shop() as shop:
            seen.append(await run_sync(pid_of, here))
            if len(seen) == 5:
                everyone_is_in.set()
            await everyone_is_in.wait()
            await shop.order("8472")

    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(use)
    assert len(set(seen)) == 1
    assert not await run_sync(is_owned, here)


@pytest.mark.parametrize("content", [b"", b"[]", b'{"url": "http://127.0.0.1:1", "pid": 1}'])
async def test_a_stale_address_is_not_believed(here: Path, content: bytes) -> None:
    await run_sync((here / "payments.json").write_bytes, content)
    async with open_shop() as shop:
        assert await run_sync(pid_of, here) != 1
        await shop.order("8472")


async def test_another_service_on_the_known_port_is_not_ours(here: Path, tmp_path: Path) -> None:
    await run_sync((other := tmp_path / "other").mkdir)
    async with another(other) as stranger:
        stale = json.dumps({"url": stranger.url, "pid": stranger.process.pid + 1})
        await run_sync((here / "payments.json").write_text, stale)
        async with open_shop() as shop:
            await shop.refund("8472", "pay_5a2", 2000, key=KEY)
        assert stranger.process.poll() is None
    assert len(await run_sync(effects, here)) == 1
    assert await run_sync(effects, other) == []


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
async def test_the_service_gets_none_of_our_secrets(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "canary")
    monkeypatch.setenv("PAYMENTS_DELAY_AFTER_S", "0")
    async with open_shop():
        pid = await run_sync(pid_of, here)
        passed_on = await run_sync(Path(f"/proc/{pid}/environ").read_bytes)
    assert b"canary" not in passed_on
    assert b"PAYMENTS_DELAY_AFTER_S=0" in passed_on


async def test_a_service_that_cannot_start_is_an_error_that_says_why(here: Path) -> None:
    await run_sync((here / "payments.jsonl").write_bytes, b"broken\nbroken\n")
    with pytest.raises(NoServiceError, match="it ended with 1"):
        async with open_shop():
            pass
    assert b"is not an effect" in await run_sync((here / "payments.log").read_bytes)
