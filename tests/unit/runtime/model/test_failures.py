"""A provider's refusal: its own word first, the status where it has none."""

from datetime import UTC, datetime
from typing import Any

import pytest

from runtime.model.failures import failure_of, retry_after_s
from runtime.secrets import remember


def body(kind: str, code: str | None = None, message: object = "no") -> dict[str, Any]:
    error: dict[str, Any] = {"type": kind, "message": message}
    return {"error": error if code is None else {**error, "details": {"error_code": code}}}


@pytest.mark.parametrize(
    ("status", "said", "reason"),
    [
        (200, body("overloaded_error"), "overloaded"),
        (400, body("rate_limit_error"), "rate_limited"),
        (429, body("rate_limit_error", "ramp_limit_exceeded"), "rate_limited"),
        (429, body("rate_limit_error", "contract_spend_limit_reached"), "spend_limit"),
        (429, body("rate_limit_error", "linked_organization_spend_limit_reached"), "spend_limit"),
        (402, body("billing_error"), "spend_limit"),
        (418, body("novel_error"), "bad_request"),
        (503, body("novel_error"), "provider_error"),
        (529, "overloaded, says the proxy", "overloaded"),
        (401, None, "authentication"),
        (502, "<html>", "provider_error"),
        (500, {"error": "text"}, "provider_error"),
        (422, {"error": {"type": ["x"], "message": 5, "details": "x"}}, "bad_request"),
        (408, [], "timeout"),
    ],
)
def test_the_reason(status: int, said: object, reason: str) -> None:
    assert failure_of(status, said, {}).reason == reason


def test_the_text_is_short_and_clean_and_without_a_gateways_page() -> None:
    error = failure_of(400, body("invalid_request_error", message="a\0" + "x" * 900), {})
    assert len(str(error)) <= 300
    assert "\0" not in str(error)
    assert str(failure_of(502, "<html>secret</html>", {})) == "the provider answered 502"


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after-ms": "250", "retry-after": "7"}, 0.25),
        ({"retry-after": "0"}, None),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT"}, 40.0),
        (
            {
                "retry-after": "Wed, 21 Oct 2026 07:28:00 GMT",
                "date": "Wed, 21 Oct 2026 07:27:57 GMT",
            },
            3.0,
        ),
        ({"retry-after": "Wed, 21 Oct 2026 07:27:00 GMT"}, None),
        ({"retry-after": "tomorrow"}, None),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT", "date": "now"}, None),
    ],
)
def test_how_long_to_wait(headers: dict[str, str], expected: float | None) -> None:
    now = datetime(2026, 10, 21, 7, 27, 20, tzinfo=UTC).timestamp()
    assert retry_after_s(headers, now) == expected


@pytest.mark.parametrize(
    ("status", "said", "is_free"),
    [
        (529, body("overloaded_error"), True),
        (200, body("overloaded_error"), False),
        (429, body("rate_limit_error"), True),
        (400, body("invalid_request_error"), True),
        (401, None, True),
        (408, None, False),
        (500, body("api_error"), False),
        (502, "<html>", False),
        (504, body("timeout_error"), False),
    ],
)
def test_what_was_turned_down_before_any_inference_is_free(
    status: int, said: object, is_free: bool
) -> None:
    assert failure_of(status, said, {}).is_free is is_free


@pytest.mark.parametrize("status", [200, 302, 503])
def test_a_word_that_nobody_knows_is_the_providers_failure(status: int) -> None:
    assert failure_of(status, {"error": {"type": "some_new_error"}}, {}).reason == "provider_error"


KEY = "sk-ant-" + "k" * 40


@pytest.mark.parametrize("before", range(240, 300))
def test_a_key_that_is_echoed_is_gone_wherever_the_text_was_cut(before: int) -> None:
    remember(KEY)
    message = "x" * before + KEY + " is no key"
    told = failure_of(401, {"error": {"type": "authentication_error", "message": message}}, {})
    assert KEY[:8] not in told.message
