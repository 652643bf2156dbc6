"""Both buses, each as connections of their own, for the tests of what every bus must do."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from runtime.bus.bus import WireBus
from runtime.bus.server import EmbeddedServer
from tests.contract.bus_network import Network, over_memory, over_nats


@pytest.fixture(params=["memory", "nats"])
async def network(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Network]:
    if request.param == "memory":
        yield over_memory()
        return
    async with EmbeddedServer(tmp_path / "server") as server:
        yield over_nats(server)


@pytest.fixture
async def bus(network: Network) -> AsyncGenerator[WireBus]:
    async with network.connect("daemon") as connected:
        yield connected


@pytest.fixture
async def peer(network: Network) -> AsyncGenerator[WireBus]:
    """Another connection."""
    async with network.connect("daemon") as connected:
        yield connected


@pytest.fixture
async def submitter(network: Network) -> AsyncGenerator[WireBus]:
    """A connection from outside."""
    async with network.connect("submitter") as connected:
        yield connected
