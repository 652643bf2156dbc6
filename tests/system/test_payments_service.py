"""The payments service as a real process: one line per effect, whatever its caller suffers."""

import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest

from tests.system.payments_process import KEY, MODULE, REFUND, Service, effects, running
from treadle.examples.refunds.place import try_lock


@pytest.fixture
def service(data_dir: Path) -> Iterator[Service]:
    with running(data_dir) as service:
        yield service


# ------------------------------------------------------------------------------- what it knows


def test_the_documented_order_is_served_exactly(service: Service) -> None:
    assert service.ask("GET", "/orders/8472") == (
        200,
        {
            "order_id": "8472",
            "customer_id": "cust-3391",
            "total_inr": 2000,
            "payments": [
                {
                    "payment_id": "pay_5a1",
                    "amount_inr": 2000,
                    "status": "captured",
                    "at": "2026-10-20T09:14:02Z",
                },
                {
                    "payment_id": "pay_5a2",
                    "amount_inr": 2000,
                    "status": "captured",
                    "at": "2026-10-20T09:14:41Z",
                },
            ],
        },
    )
    assert service.ask("GET", "/refunds?order_id=8472") == (
        200,
        {"order_id": "8472", "refunds": []},
    )
    query = {"query": "duplicate card capture refund approval threshold"}
    status, found = service.ask("POST", "/policy/search", query)
    assert status == 200
    assert found["passages"] == [
        {
            "doc": "POL-REF-004",
            "version": "v4",
            "section": "3.2",
            "text": "A duplicate capture on one order is refundable in full for the later payment. "
            "Refunds above INR 1,000 require approval by a support lead.",
        }
    ]
    assert service.ask("POST", "/policy/search", {"query": "weather"}) == (200, {"passages": []})


def test_any_id_is_an_order_of_the_same_shape(service: Service) -> None:
    status, order = service.ask("GET", "/orders/bench-17")
    assert status == 200
    assert order["total_inr"] == 2000
    assert [payment["payment_id"] for payment in order["payments"]] == [
        "pay_bench-17_1",
        "pay_bench-17_2",
    ]
    assert order["payments"][0]["at"] < order["payments"][1]["at"]
    assert service.ask("GET", "/orders/bench-17") == (200, order)

    small = [service.ask("GET", f"/orders/small-{n}")[1]["total_inr"] for n in range(20)]
    assert all(100 <= amount <= 900 for amount in small)
    assert len(set(small)) > 10

    for missing in ("none-1", "a" * 33, "a%2Fb", ""):
        status, answer = service.ask("GET", f"/orders/{missing}")
        assert (status, answer["error"]["code"]) == (404, "no_such_order")


# --------------------------------------------------------------------------------- idempotency


def test_the_same_key_twice_is_one_line_and_one_result(service: Service) -> None:
    created, first = service.refund()
    repeated, second = service.refund()
    assert (created, repeated) == (201, 200)
    assert (
        first
        == second
        == {
            "refund_id": "rf_9001",
            "status": "pending",
            "order_id": "8472",
            "payment_id": "pay_5a2",
            "amount_inr": 2000,
        }
    )
    (line,) = effects(service.folder)
    assert set(line) == {"at", "kind", "key", "payload"}
    assert (line["kind"], line["key"], line["payload"]) == ("refund", KEY, first)

    assert service.ask("GET", f"/effects/{quote(KEY, safe='')}") == (200, line)
    assert service.ask("GET", f"/refunds/{quote(KEY, safe='')}") == (200, first)
    assert service.ask("GET", f"/notifications/{quote(KEY, safe='')}")[0] == 404
    assert service.ask("GET", "/refunds?order_id=8472&payment_id=pay_5a2")[1]["refunds"] == [first]
    assert service.ask("GET", "/refunds?order_id=8472&payment_id=pay_5a1")[1]["refunds"] == []
    assert service.ask("GET", "/stats")[1]["keys"] == {KEY: 2}


def test_many_at_once_with_one_key_are_one_effect(service: Service) -> None:
    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(service.refund, [KEY] * 50))
    assert sorted(status for status, _ in answers) == [200] * 49 + [201]
    assert len({json.dumps(body, sort_keys=True) for _, body in answers}) == 1
    assert len(effects(service.folder)) == 1


def test_a_key_stands_for_one_request_only(service: Service) -> None:
    service.refund()
    status, answer = service.refund(amount_inr=1500)
    assert (status, answer["error"]["code"]) == (422, "key_mismatch")
    told = {"order_id": "8472", "template": "t", "text": "x"}
    status, answer = service.ask("POST", "/notifications", told, key=KEY)
    assert (status, answer["error"]["code"]) == (422, "key_mismatch")
    assert service.ask("POST", "/notifications", told, key="notify:1")[0] == 201
    assert [effect["kind"] for effect in effects(service.folder)] == ["refund", "notification"]


def test_another_key_is_another_effect(service: Service) -> None:
    assert service.refund("random-1")[1]["refund_id"] == "rf_9001"
    assert service.refund("random-2")[1]["refund_id"] == "rf_9002"
    assert len(effects(service.folder)) == 2


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"order_id": "none-1"}, "no_such_order"),
        ({"payment_id": "pay_other"}, "no_such_payment"),
        ({"amount_inr": 2001}, "bad_amount"),
        ({"amount_inr": 0}, "bad_amount"),
        ({"amount_inr": True}, "bad_field"),
        ({"amount_inr": "2000"}, "bad_field"),
        ({"amount_inr": 2000.0}, "bad_field"),
        ({"note": "extra"}, "bad_fields"),
    ],
)
def test_a_wrong_request_does_nothing(
    service: Service, changes: dict[str, object], code: str
) -> None:
    status, answer = service.ask("POST", "/refunds", REFUND | changes, key=KEY)
    assert 400 <= status < 500
    assert answer["error"]["code"] == code
    assert service.refund(None)[0] == 400
    assert service.refund("")[0] == 400
    assert service.refund("k" * 257)[0] == 400
    assert effects(service.folder) == []


@pytest.mark.parametrize(
    ("content", "status"),
    [(b"[1]", 400), (b"{", 400), (b"[" * 60_000, 400), (b"\xff", 400), (b" " * 70_000, 413)],
)
def test_hostile_bodies_are_refused_and_it_serves_on(
    service: Service, content: bytes, status: int
) -> None:
    connection = http.client.HTTPConnection(urlsplit(service.url).netloc, timeout=10)
    with contextlib.closing(connection), contextlib.suppress(BrokenPipeError):
        connection.request("POST", "/refunds", content, {"Idempotency-Key": "k"})
        assert connection.getresponse().status == status
    assert service.ask("GET", "/healthz")[0] == 200


# ----------------------------------------------------------------------------------- the file


def test_keys_survive_kill_and_a_torn_last_line(data_dir: Path) -> None:
    with running(data_dir) as service:
        _, made = service.refund()
        service.kill()
    whole = (data_dir / "payments.jsonl").read_bytes()
    (data_dir / "payments.jsonl").write_bytes(whole + whole[: len(whole) // 2])

    with running(data_dir) as service:
        assert service.refund() == (200, made)
        assert service.refund("other")[1]["refund_id"] == "rf_9002"
    assert (data_dir / "payments.jsonl").read_bytes().startswith(whole)
    assert [effect["key"] for effect in effects(data_dir)] == [KEY, "other"]


@pytest.mark.parametrize("line", [b"not json\n", b"{}\n", b'{"kind": "gift"}\n', b"[]\n"])
def test_a_bad_line_in_the_middle_is_never_skipped(data_dir: Path, line: bytes) -> None:
    good = b'{"at":"","kind":"refund","key":"k","payload":{"order_id":"1"}}\n'
    (data_dir / "payments.jsonl").write_bytes(good + line + good)
    ended = subprocess.run(
        [sys.executable, "-m", MODULE, "--data-dir", str(data_dir)],
        capture_output=True,
        check=False,
        timeout=30,
    )
    assert ended.returncode == 1
    assert b"is not an effect" in ended.stderr
    assert (data_dir / "payments.jsonl").read_bytes() == good + line + good


def test_two_services_never_share_a_folder(service: Service) -> None:
    second = subprocess.run(
        [sys.executable, "-m", MODULE, "--data-dir", str(service.folder)],
        capture_output=True,
        check=False,
        timeout=30,
    )
    assert second.returncode == 75
    assert b"another payments service" in second.stderr
    assert json.loads((service.folder / "payments.json").read_bytes()) == {
        "url": service.url,
        "pid": service.process.pid,
    }


def test_a_stopped_service_takes_its_address_with_it(service: Service) -> None:
    service.process.send_signal(signal.SIGTERM)
    assert service.process.wait(timeout=10) == 0
    assert not (service.folder / "payments.json").exists()


def test_it_ends_when_its_folder_is_gone(service: Service) -> None:
    (service.folder / "payments.jsonl").unlink()
    assert service.process.wait(timeout=10) == 0


def test_an_unused_service_ends_by_itself(data_dir: Path) -> None:
    command = [sys.executable, "-m", MODULE, "--data-dir", str(data_dir), "--idle-exit-s", "0.3"]
    users = try_lock(data_dir / "payments.users", shared=True)
    assert users is not None
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=1.0)
        os.close(users)
        assert process.wait(timeout=10) == 0
