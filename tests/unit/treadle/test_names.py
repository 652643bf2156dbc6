"""The public names are those of the contract, and importing them is cheap."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

import treadle

ROOT = Path(__file__).parents[3]
NAMES = [
    "App",
    "Agent",
    "Budget",
    "Progress",
    "Ctx",
    "Request",
    "Draft",
    "Ruling",
    "Unmet",
    "read",
    "write",
    "each_call",
    "allow",
    "ask",
    "deny",
    "Transient",
    "Correctable",
    "Unrecoverable",
    "Unknown",
    "Client",
]


def test_exactly_the_names_of_the_contract() -> None:
    assert sorted(treadle.__all__) == sorted(NAMES)
    assert dir(treadle) == sorted(NAMES)


@pytest.mark.parametrize("name", [each for each in NAMES if each != "Client"])
def test_every_name_can_be_imported(name: str) -> None:
    assert getattr(treadle, name) is getattr(treadle, name)


def test_another_name_is_no_attribute() -> None:
    with pytest.raises(AttributeError, match="'treadle' has no attribute 'tool'"):
        getattr(treadle, "tool")  # noqa: B009 -- the checker knows that it is not there


def test_importing_pulls_in_neither_the_bus_nor_a_provider() -> None:
    names = ", ".join(each for each in NAMES if each != "Client")
    heavy = ("anyio", "asyncio", "nats", "anthropic", "aiosqlite", "nacl", "structlog")
    code = (
        f"import sys; from treadle import {names}; print([m for m in {heavy} if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


def test_the_typed_example_runs_as_well() -> None:
    spec = importlib.util.spec_from_file_location("api", ROOT / "tests" / "typing" / "api.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert list(module.app.specs) == ["refund"]
    assert [tool.effect for tool in module.app.specs["refund"].tools] == [
        "read",
        "read",
        "replay",
        "blind",
    ]
