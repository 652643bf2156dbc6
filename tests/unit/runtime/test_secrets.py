"""A secret is taken out of every text, in every form in which it may stand there."""

import base64
import json
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messages.parts import Problem
from runtime import secrets
from runtime.config import read_secret
from runtime.tools.clean import Cleaned, clean, clean_text, error_text

CANARY = 'sk-ant-01/+"canary 2'


def encoded(text: str, before: str = "", after: str = "") -> str:
    return base64.b64encode(f"{before}{text}{after}".encode()).decode()


FORMS = {
    "plain": CANARY,
    "url": f"https://x?key={quote(CANARY)}",
    "url whole": quote(CANARY, safe=""),
    "form": quote_plus(CANARY),
    "json": json.dumps({"key": CANARY}),
    "base64": encoded(CANARY),
    "basic auth": encoded(CANARY, "user:"),
    "base64 shifted": encoded(CANARY, "ab", "c"),
    "base64 url": base64.urlsafe_b64encode(CANARY.encode()).decode(),
}


@pytest.fixture(autouse=True)
def known() -> None:
    secrets.remember(CANARY)


@pytest.mark.parametrize("form", FORMS)
def test_it_is_found_in_every_form(form: str) -> None:
    told = secrets.redact(f"before {FORMS[form]} after")
    assert secrets.SHOWN in told
    assert told.startswith("before ")
    assert told.endswith(" after")
    assert "canary" not in told
    for text in (CANARY[:12], encoded(CANARY)[4:16]):
        assert text not in told


@pytest.mark.parametrize("form", FORMS)
def test_it_leaves_no_tool_and_no_error(form: str) -> None:
    cleaned = clean({"a": [FORMS[form]], FORMS[form]: 1})
    assert isinstance(cleaned, Cleaned)
    assert not secrets.is_in(json.dumps(cleaned.value).encode())
    assert any("a secret was left out" in note for note in cleaned.notes)
    assert secrets.SHOWN in error_text(ValueError(FORMS[form]))
    assert secrets.SHOWN in clean_text("x" * 500 + FORMS[form], 520)


def test_what_holds_none_stays_as_it_was() -> None:
    value = {"a": ["sk-ant", 1, None], "b": "canary"}
    assert clean(value) == Cleaned(value, (), len(json.dumps(value, separators=(",", ":"))))
    assert not isinstance(clean("x"), Problem)


def test_short_values_are_no_secrets() -> None:
    secrets.remember("abc", "")
    assert secrets.redact("abc") == "abc"


def test_a_variable_that_is_not_text_is_kept_out_as_far_as_it_is() -> None:
    """Python shows bytes that are no UTF-8 as lone surrogates."""
    secrets.remember("\udcff0123456789abcdef\udcfe")
    assert secrets.redact("it is 0123456789abcdef.") == "it is …."
    secrets.remember("\udcff" * 20)
    assert clean("fine") == Cleaned("fine", (), 6)


def test_a_secret_that_was_read_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOUSE_KEY", "not-so-random")
    assert read_secret("HOUSE_KEY") == "not-so-random"
    assert secrets.redact("it is not-so-random.") == "it is …."


@pytest.mark.parametrize(
    ("name", "value", "is_one"),
    [
        ("PAYMENTS_API_KEY", "0123456789abcdef", True),
        ("GITHUB_TOKEN", "ghp_0123456789abcdefgh", True),
        ("DB_PASSWORD", "correct-horse-battery-9", True),
        ("db_secret", " 0123456789abcdef\n", True),
        ("SORT_KEY", "customer_id", False),
        ("PARTITION_KEY", "a_rather_long_column_name", False),
        ("MONKEY", "0123456789abcdef", False),
        ("SSH_KEY_PATH", "/home/x/.ssh/id_ed25519", False),
    ],
)
def test_variables_that_are_called_and_look_like_secrets(
    name: str, value: str, *, is_one: bool
) -> None:
    assert list(secrets.in_environment({name: value})) == ([value.strip()] if is_one else [])


@given(st.text(min_size=8, max_size=60), st.text(max_size=9), st.text(max_size=9))
def test_any_secret_is_found_in_base64_wherever_it_begins(
    secret: str, before: str, after: str
) -> None:
    try:
        text = encoded(secret, before, after)
    except UnicodeEncodeError:
        return
    secrets.forget()
    secrets.remember(secret)
    assert secrets.SHOWN in secrets.redact(text)
    assert secrets.SHOWN in secrets.redact(before + secret + after)
