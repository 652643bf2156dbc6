"""A command line whose daemon is a fake, injected at the one seam."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from messages.errors import Unreachable
from tests.unit.treadle.cli.fakes import FakeDaemon, Result, RunCli
from treadle.cli import session
from treadle.cli.main import run


@pytest.fixture
def daemon(monkeypatch: pytest.MonkeyPatch) -> FakeDaemon:
    fake = FakeDaemon()

    @asynccontextmanager
    async def connect(_options: object, user: str) -> AsyncGenerator[FakeDaemon]:
        fake.users.append(user)
        if fake.is_down:
            raise Unreachable("no daemon runs on .treadle", hint="treadle up --app MODULE:APP")
        yield fake

    monkeypatch.setattr(session, "connect", connect)
    return fake


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> RunCli:
    def call(*arguments: str) -> Result:
        code = run(arguments)
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err)

    return call
