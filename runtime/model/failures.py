"""How a provider's refusal is classified: by its own word, else by the HTTP status.

Pure, so that the whole table can be tried without a server. The word wins because a stream that
has begun with status 200 can still end in an ``error`` event, and gateways rewrite statuses.

Source: research/sdk-facts.md 1.5.
"""

from collections.abc import Mapping
from email.utils import formatdate, parsedate_to_datetime
from typing import Final, cast

from messages.errors import ModelError
from messages.parts import JsonValue
from runtime.model.port import FailureReason
from runtime.tools.clean import clean_text

_MAX_TEXT: Final = 300
_FIRST_CLIENT_STATUS: Final = 400

_SPEND_LIMIT: Final = "spend_limit_reached"
"""How the codes of the provider's spend limits end; their 429 must not be tried again."""
_BY_WORD: Final[dict[str, FailureReason]] = {
    "overloaded_error": "overloaded",
    "rate_limit_error": "rate_limited",
    "billing_error": "spend_limit",
    "api_error": "provider_error",
    "conflict_error": "provider_error",
    "timeout_error": "timeout",
    "authentication_error": "authentication",
    "permission_error": "authentication",
    "not_found_error": "unknown_model",
    "invalid_request_error": "bad_request",
}
_BY_STATUS: Final[dict[int, FailureReason]] = {
    401: "authentication",
    402: "spend_limit",
    403: "authentication",
    404: "unknown_model",
    408: "timeout",
    409: "provider_error",
    429: "rate_limited",
    501: "bad_request",
    504: "timeout",
    529: "overloaded",
}
_FIRST_SERVER_STATUS: Final = 500
_TURNED_DOWN: Final = frozenset(
    {"overloaded", "rate_limited", "spend_limit", "authentication", "unknown_model", "bad_request"}
)
"""Reasons before any inference, where they are the status of the answer. A gateway's 502 or 504
may stand for an inference that was made, and so may a failure in the middle of a stream."""


def failure_of(
    status: int,
    body: JsonValue,
    headers: Mapping[str, str],
    *,
    request_id: str = "",
    now: float = 0.0,
) -> ModelError:
    """The error for an answer that is a refusal.

    Args:
        status: of the HTTP answer; 200 for an ``error`` event of a stream.
        body: the decoded body, or text where it was no JSON (a gateway's page, which is not kept).
        headers: of the answer; for the time to wait.
        request_id: the provider's.
        now: epoch seconds; for an answer without a date of its own.
    """
    error = _error_in(body)
    word, code = error.get("type"), _code_in(error)
    reason = _BY_WORD.get(str(word)) or _of_status(status)
    if code.endswith(_SPEND_LIMIT):
        reason = "spend_limit"
    said = [str(part) for part in (word, code) if part]
    text = f"the provider answered {' '.join([str(status), *said])}"
    if isinstance(message := error.get("message"), str) and message:
        text += f": {message}"
    return ModelError(
        reason,
        clean_text(text, _MAX_TEXT),
        request_id=request_id or _request_id_in(body),
        retry_after_s=retry_after_s(headers, now),
        is_free=status >= _FIRST_CLIENT_STATUS and reason in _TURNED_DOWN,
    )


def retry_after_s(headers: Mapping[str, str], now: float = 0.0) -> float | None:
    """How long the provider asks to be left alone; None where it does not say so.

    A date is compared with that of the answer, where it has one: its clock may differ from ours.
    """
    dated = headers.get("date") or formatdate(now, usegmt=True)
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        said = headers.get(name, "")
        try:
            seconds = float(said) * unit
        except ValueError:
            seconds = _seconds_between(dated, said)
        if 0.0 < seconds < float("inf"):
            return seconds
    return None


def _seconds_between(start: str, end: str) -> float:
    """Of two HTTP dates; 0 where one of them is none."""
    try:
        return (parsedate_to_datetime(end) - parsedate_to_datetime(start)).total_seconds()
    except (TypeError, ValueError):
        return 0.0


def _of_status(status: int) -> FailureReason:
    if found := _BY_STATUS.get(status):
        return found
    is_ours = _FIRST_CLIENT_STATUS <= status < _FIRST_SERVER_STATUS
    return "bad_request" if is_ours else "provider_error"


def _error_in(body: JsonValue) -> dict[str, JsonValue]:
    error = cast("dict[str, JsonValue]", body).get("error") if isinstance(body, dict) else None
    return cast("dict[str, JsonValue]", error) if isinstance(error, dict) else {}


def _code_in(error: dict[str, JsonValue]) -> str:
    details = error.get("details")
    known = cast("dict[str, JsonValue]", details) if isinstance(details, dict) else {}
    code = known.get("error_code")
    return code if isinstance(code, str) else ""


def _request_id_in(body: JsonValue) -> str:
    found = cast("dict[str, JsonValue]", body).get("request_id") if isinstance(body, dict) else ""
    return found if isinstance(found, str) else ""
