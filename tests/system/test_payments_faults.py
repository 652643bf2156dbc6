"""The faults that the payments service can be told to show."""

import http.client
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest

from tests.system.payments_process import KEY, REFUND, Service, effects, running, until


@pytest.fixture
def service(data_dir: Path) -> Iterator[Service]:
    with running(data_dir) as service:
        yield service


def test_a_lost_reply_hides_an_effect_that_happened(service: Service) -> None:
    service.control(path="POST /refunds", lose_reply=1)
    with pytest.raises(http.client.RemoteDisconnected):
        service.refund()
    assert len(effects(service.folder)) == 1
    assert service.refund()[0] == 200
    assert len(effects(service.folder)) == 1


def test_errors_come_before_the_effect_and_run_out(service: Service) -> None:
    service.control(path="/refunds", error=2, error_status=500)
    assert service.refund()[0] == 500
    assert service.ask("GET", "/orders/8472")[0] == 200
    assert service.refund()[0] == 500
    assert effects(service.folder) == []
    assert service.refund()[0] == 201


def test_the_longest_path_decides_and_reset_forgets(service: Service) -> None:
    service.control(error=100)
    service.control(path="POST /refunds", error_status=500)
    assert service.refund()[0] == 201
    assert service.ask("GET", "/orders/8472")[0] == 503
    status, shown = service.ask("GET", "/control")
    assert status == 200
    assert {(fault["path"], fault["error"]) for fault in shown["faults"]} == {
        ("", 99),
        ("POST /refunds", 0),
    }
    service.control(reset=True)
    assert service.ask("GET", "/control")[1] == {"faults": []}
    assert service.ask("GET", "/orders/8472")[0] == 200


def test_a_delayed_effect_happens_though_its_caller_has_gone(service: Service) -> None:
    service.control(path="POST /refunds", delay_before_s=0.5)
    connection = http.client.HTTPConnection(urlsplit(service.url).netloc, timeout=10)
    connection.request("POST", "/refunds", json.dumps(REFUND), {"Idempotency-Key": KEY})
    connection.close()
    assert effects(service.folder) == []
    until(lambda: len(effects(service.folder)) == 1)


def test_the_delay_after_holds_back_the_answer_only(service: Service) -> None:
    service.control(path="POST /refunds", delay_after_s=1.0)
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(service.refund)
        until(lambda: len(effects(service.folder)) == 1, seconds=0.8)
        assert not answer.done()
        assert answer.result()[0] == 201


def test_a_delay_can_be_for_the_next_requests_only(service: Service) -> None:
    service.control(path="POST /refunds", delay_before_s=60, delay_after_s=60, delay_times=0)
    assert service.refund()[0] == 201
    service.control(path="POST /refunds", delay_before_s=0.3, delay_after_s=0, delay_times=1)
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(service.refund, "slow")
        until(lambda: service.ask("GET", "/stats")[1]["keys"].get("slow"))
        service.refund("quick")
        slow.result()
    assert [effect["key"] for effect in effects(service.folder)] == [KEY, "quick", "slow"]


def test_a_downstream_without_keys_does_it_again(service: Service) -> None:
    service.control(honour_keys=False)
    assert service.refund()[0] == 201
    assert service.refund()[0] == 201
    assert service.refund(None)[0] == 201
    assert [effect["key"] for effect in effects(service.folder)] == [KEY, KEY, None]
    assert service.ask("GET", f"/refunds/{quote(KEY, safe='')}")[0] == 501


def test_faults_come_from_the_environment_too(data_dir: Path) -> None:
    faults = {
        "PAYMENTS_PATH": "POST /refunds",
        "PAYMENTS_ERROR": "1",
        "PAYMENTS_ERROR_STATUS": "429",
        "PAYMENTS_DELAY_BEFORE_S": "0.1",
        "PAYMENTS_HONOUR_KEYS": "false",
    }
    with running(data_dir, **faults) as service:
        assert [service.refund()[0] for _ in range(3)] == [429, 201, 201]


@pytest.mark.parametrize(
    "settings",
    [
        {"lose_replies": 1},
        {"lose_reply": -1},
        {"lose_reply": 1.5},
        {"lose_reply": True},
        {"delay_before_s": float("nan")},
        {"error_status": 200},
        {"honour_keys": "no"},
        {"path": 1},
    ],
)
def test_a_wrong_setting_changes_nothing(service: Service, settings: dict[str, object]) -> None:
    status, answer = service.ask("POST", "/control", settings)
    assert (status, answer["error"]["code"]) == (400, "bad_fault")
    assert service.ask("GET", "/control")[1] == {"faults": []}
