"""Case B28: files, of which a body may be left out."""

from typing import Any

from tests.cases.apps import downstream
from treadle import Agent, App, Ctx, Request, Ruling, allow, write


@write(key="file:{path}:v1", timeout_s=5.0, late_commit_s=0.2)
async def file_write(ctx: Ctx[None], path: str, body: str = "") -> dict[str, Any]:
    """Write a file."""
    downstream.note(downstream.FILE, kind="effect", key=ctx.idempotency_key, body=body)
    return {"written": len(body)}


@file_write.rule
def may_write(req: Request, path: str, body: str = "") -> Ruling:
    return allow()


@file_write.lookup
def find_file(ctx: Ctx[None], path: str, body: str = "") -> dict[str, Any] | None:
    return {"written": len(body)} if downstream.effects(ctx.idempotency_key) else None


agent = Agent(
    "b28", model="m", instructions="Write files.", tools=[file_write], max_output_tokens=1024
)
app = App(agent)
