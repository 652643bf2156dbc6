"""The error tree: a code of its own per class, an exit code, and nothing secret in the text."""

import inspect
from typing import Any

import pytest

from messages import errors
from messages.errors import BusError, Conflict, ToolError, TreadleError

CLASSES: list[Any] = [
    cls for cls in vars(errors).values() if isinstance(cls, type) and issubclass(cls, Exception)
]
OURS: list[Any] = [cls for cls in CLASSES if issubclass(cls, TreadleError)]
SECRET = "s3cr3t-canary"


def made(cls: type[Any], text: str = "x") -> Any:
    """An instance, with something for each argument it cannot do without."""
    parameters = inspect.signature(cls).parameters.values()
    needed = [p for p in parameters if p.default is p.empty]
    return cls(*[7 if p.annotation in {int, "int | None", int | None} else text for p in needed])


def test_every_class_has_a_code_of_its_own() -> None:
    codes = [cls.code for cls in CLASSES]
    assert len(set(codes)) == len(codes)
    for cls in CLASSES:
        assert "code" in vars(cls), f"{cls.__name__} inherits its code"
        assert cls.code.replace("_", "").isalpha()
        assert cls.code.isupper()


def test_every_class_is_in_the_drawing_where_it_belongs() -> None:
    drawing = errors.__doc__ or ""
    words = drawing.split()
    for cls in CLASSES:
        assert cls.__name__ in words, f"{cls.__name__} is not drawn"
    for line in drawing.splitlines():
        if "(exit " in line:
            name = line.split("── ")[-1].split()[0]
            assert getattr(errors, name).exit_code == int(line.split("(exit ")[1].split(")")[0])


@pytest.mark.parametrize("cls", OURS)
def test_an_error_can_be_shown(cls: Any) -> None:
    error = made(cls)
    assert error.message
    assert str(error) == error.message
    assert isinstance(error.hint, str)
    assert error.exit_code in {1, 2, 3, 4, 7, 8, 69}
    assert error.retryable in {True, False}


def test_only_what_may_pass_is_worth_a_retry() -> None:
    retryable = {cls for cls in OURS if cls.retryable}
    assert retryable == {
        *(cls for cls in OURS if issubclass(cls, BusError)),
        errors.StorageError,
    }


def test_a_huge_value_does_not_fill_a_message() -> None:
    for cls in (errors.BadIdentifier, errors.NotFound):
        assert len(cls("run", "x" * 100_000).message) < 400


def test_no_constructor_takes_a_secret_by_name() -> None:
    named = {name for cls in CLASSES for name in inspect.signature(cls).parameters}
    assert not named & {
        "password",
        "token",
        "secret",
        "credential",
        "payload",
        "data",
        "body",
        "key",
    }


def test_a_conflict_says_why() -> None:
    assert Conflict("decided", why="ALREADY_DECIDED").why == "ALREADY_DECIDED"
    assert Conflict("no").why == "CONFLICT"


def test_an_unknown_key_names_the_nearest() -> None:
    error = errors.ConfigError("treadle.toml: budgets", "unknown key", nearest="max_steps")
    assert (error.message, error.hint) == (
        "treadle.toml: budgets: unknown key",
        "did you mean 'max_steps'?",
    )


@pytest.mark.parametrize("cls", [cls for cls in CLASSES if issubclass(cls, ToolError)])
def test_a_tool_error_always_says_something(cls: Any) -> None:
    assert cls().message == cls.__name__
    assert cls("no such order", hint="read it first").hint == "read it first"
    assert not issubclass(cls, TreadleError)


def test_what_a_tool_raises_is_public() -> None:
    import treadle  # noqa: PLC0415 -- only this test looks at the top

    for name in ("Transient", "Correctable", "Unrecoverable", "Unknown"):
        assert getattr(treadle, name) is getattr(errors, name)
