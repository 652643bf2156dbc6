"""A process that starts an embedded server, says where it is, and waits to be killed."""

import sys
from pathlib import Path

import anyio

from runtime.bus.server import EmbeddedServer


async def main() -> None:
    async with EmbeddedServer(Path(sys.argv[1])) as server:
        sys.stdout.write(f"{server.pid} {server.url}\n")
        sys.stdout.flush()
        await anyio.sleep_forever()


if __name__ == "__main__":
    anyio.run(main)
