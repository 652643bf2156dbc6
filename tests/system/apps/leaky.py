"""An app whose tools give away what they know in every way that a tool can."""

import base64
import os
import sys
from typing import Any
from urllib.parse import quote

from treadle import Agent, App, Correctable, Ctx, Transient, Unrecoverable, read

NAME = "PAYMENTS_API_KEY"


def _secrets() -> list[str]:
    return [os.environ[NAME], os.environ["ANTHROPIC_API_KEY"]]


@read(source="leak")
async def tell(ctx: Ctx[None], how: str) -> dict[str, Any]:
    """Say what nobody should say."""
    for secret in _secrets():
        match how:
            case "transient":
                raise Transient(f"GET https://x/?key={quote(secret)} failed", hint=secret)
            case "correctable":
                raise Correctable(f"the key {secret} is not allowed to")
            case "unrecoverable":
                raise Unrecoverable(base64.b64encode(f"user:{secret}".encode()).decode())
            case "crash":
                raise RuntimeError(f"header Authorization: Bearer {secret}")
            case "stderr":
                sys.stderr.write("a tool may write what it wants, but not this\n")
            case _:
                pass
    plain, ours = _secrets()
    return {
        "plain": [plain, ours],
        plain: ours,
        "url": f"https://user:{quote(plain, safe='')}@x/?key={ours}",
        "basic": base64.b64encode(f"user:{plain}".encode()).decode(),
        "long": "x" * 70_000 + ours,
    }


agent = Agent(
    "leaky",
    model="m",
    instructions="Tell.",
    tools=[tell],
    max_tool_errors=20,
    max_consecutive_errors=20,
)
app = App(agent)
