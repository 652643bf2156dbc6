"""A daemon that answers from memory, and replies of the shapes that CONTRACT.md fixes."""

import json
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import anyio
import anyio.lowlevel

from messages.errors import NotFound


def run_row(run_id: str = "run-1", status: str = "RUNNING", **more: Any) -> dict[str, Any]:
    return {
        "run_id": run_id,
        "agent": "refund",
        "agent_code": "aabbccddeeff",
        "tenant": "default",
        "goal": "settle it",
        "status": status,
        "reason": "",
        "version": 1,
        "step_count": 1,
        "limits": {"max_steps": 8, "max_tokens": 40000, "max_usd": None, "max_seconds": 120.0},
        "usage": {"tokens": 1260, "usd": "0.02", "active_seconds": 1.5},
        "created_at": "2026-10-28T11:17:43.000Z",
        "updated_at": "2026-10-28T11:17:44.000Z",
        "evidence": [],
        "tool_history": [],
        "outstanding": [],
        "approval": None,
        "output": None,
        **more,
    }


def event(version: int, kind: str, **more: Any) -> dict[str, Any]:
    at = "2026-10-28T11:17:43.000Z"
    head = {"v": 1, "run_id": "run-1", "version": version, "at": at, "kind": kind, "step": 1}
    return {**head, **more}


def approval_row(**more: Any) -> dict[str, Any]:
    return {
        "id": "apr-5521",
        "run_id": "run-1",
        "agent": "refund",
        "tool": "issue_refund",
        "action_hash": "9c41e0d2b7f3",
        "action_sha256": "9c41e0d2b7f3" + "0" * 52,
        "group": "support-lead",
        "size": 2000,
        "expires_at": "2026-10-28T13:17:43.000Z",
        "state": "pending",
        "rule": "over_limit",
        "why": "above the automatic limit",
        "key": "refund:order-8472:pay_5a2:v1",
        "package": {
            "requested": {"goal": "settle it"},
            "action": {
                "does": "Refund one payment.",
                "target": "refunds-service",
                "arguments": {"order_id": "8472", "amount_inr": 2000},
            },
            "decision": {
                "limits": [{"name": "auto_inr", "value": 1000, "source": "POL-REF-004 v4 3.2"}]
            },
            "next": {"deny": "it does not run"},
        },
        **more,
    }


@dataclass
class FakeDaemon:
    """What it knows, and what it was asked."""

    runs: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    pages: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    waiting: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    ledger: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    replies: dict[str, Any] = field(default_factory=dict[str, Any])
    """By verb, what is answered as it is."""
    refusal: Exception | None = None
    is_down: bool = False
    asked: list[tuple[str, dict[str, Any]]] = field(
        default_factory=list[tuple[str, dict[str, Any]]]
    )
    users: list[str] = field(default_factory=list[str])

    def note(self, verb: str, **body: Any) -> None:
        self.asked.append((verb, body))
        if self.refusal is not None:
            raise self.refusal

    async def show(self, run_id: str, *, at: int | None = None) -> Mapping[str, Any]:
        self.note("show", run_id=run_id, at=at)
        for row in self.runs:
            if row["run_id"] == run_id:
                return row
        raise NotFound("run", run_id)

    async def list(self, **query: Any) -> Mapping[str, Any]:
        self.note("list", **query)
        return {"v": 1, "runs": self.runs}

    async def metrics(self, **query: Any) -> Mapping[str, Any]:
        self.note("metrics", **query)
        return self.replies["metrics"]

    def events(self, run_id: str, *, after: int = -1) -> "FakeFeed":
        return FakeFeed(self, run_id, after)

    async def approvals(self, ids: Sequence[str] = ()) -> Mapping[str, Any]:
        self.note("approvals", ids=list(ids))
        rows = [row for row in self.waiting if not ids or row["id"] in ids]
        return {"v": 1, "approvals": rows}

    async def effects(self, **query: Any) -> Mapping[str, Any]:
        self.note("effects", **query)
        return {"v": 1, "effects": self.ledger}

    async def submit(self, agent: str, goal: str, **task: Any) -> Mapping[str, Any]:
        self.note("submit", agent=agent, goal=goal, **task)
        return {"v": 1, "run_id": task["run_id"], "existing": False}

    async def approve(self, approval_id: str, **body: Any) -> Mapping[str, Any]:
        self.note("approve", approval_id=approval_id, **body)
        return {"v": 1, "approval": approval_row(state="approved", decision={"person": "dana"})}

    async def deny(self, approval_id: str, **body: Any) -> Mapping[str, Any]:
        self.note("deny", approval_id=approval_id, **body)
        return {"v": 1, "approval": approval_row(state="denied", decision={"person": "dana"})}

    async def cancel(self, run_id: str, *, reason: str = "") -> Mapping[str, Any]:
        self.note("cancel", run_id=run_id, reason=reason)
        return {"v": 1, "run_id": run_id}

    async def trace(self, run_id: str) -> Mapping[str, Any]:
        self.note("trace", run_id=run_id)
        return self.replies["trace"]

    async def answer(self, run_id: str, answer: Any, **body: Any) -> Mapping[str, Any]:
        self.note("answer", run_id=run_id, answer=answer, **body)
        return self.replies.get("answer", {"v": 1, "run_id": run_id, "question_id": "q-1"})

    async def pause(self, run_id: str | None = None, **body: Any) -> Mapping[str, Any]:
        self.note("pause", run_id=run_id, **body)
        return {"v": 1, "run_id": run_id} if run_id else {"v": 1, "held": body["agent"] or "*"}

    async def resume(self, run_id: str | None = None, **body: Any) -> Mapping[str, Any]:
        self.note("resume", run_id=run_id, **body)
        return {"v": 1, "run_id": run_id} if run_id else {"v": 1, "lifted": body["agent"] or "*"}

    async def agents(self) -> Mapping[str, Any]:
        self.note("agents")
        return self.replies["agents"]

    async def tools(self) -> Mapping[str, Any]:
        self.note("tools")
        return self.replies["tools"]

    async def call_tool(self, tool: str, arguments: Any, **body: Any) -> Mapping[str, Any]:
        self.note("call", tool=tool, arguments=arguments)
        self.runs = [{**run, "run_id": body["run_id"]} for run in self.runs]
        return {"v": 1, "run_id": body["run_id"], "existing": False}

    async def actors(self) -> Mapping[str, Any]:
        self.note("actors")
        return self.replies["actors"]

    async def resolve_effect(self, key: str, **body: Any) -> Mapping[str, Any]:
        self.note("resolve_effect", key=key, **body)
        return self.replies["resolve_effect"]

    async def letters(self, letter_id: int | None = None, **body: Any) -> Mapping[str, Any]:
        self.note("letters", letter_id=letter_id, **body)
        rows = self.replies["letters"]["letters"]
        return {"v": 1, "letters": [r for r in rows if letter_id in {None, r["id"]}]}

    async def retry_letter(self, letter_id: int) -> Mapping[str, Any]:
        self.note("retry_letter", letter_id=letter_id)
        return {"v": 1, "letter": self.replies["letters"]["letters"][0]}

    async def drop_letter(self, letter_id: int, *, reason: str) -> Mapping[str, Any]:
        self.note("drop_letter", letter_id=letter_id, reason=reason)
        return {"v": 1, "letter": self.replies["letters"]["letters"][0]}

    async def checkup(self) -> Mapping[str, Any]:
        self.note("checkup")
        return self.replies["checkup"]

    async def ping(self) -> Mapping[str, Any]:
        self.note("ping")
        return self.replies["ping"]

    async def check_ledger(self) -> Mapping[str, Any]:
        self.note("check_ledger")
        return self.replies["ledger"]


@dataclass
class FakeFeed:
    """Pages of a run, one after the other."""

    daemon: FakeDaemon
    run_id: str
    after: int

    def __await__(self) -> Generator[Any, None, Mapping[str, Any]]:
        return self.page().__await__()

    async def page(self) -> Mapping[str, Any]:
        self.daemon.note("events", run_id=self.run_id, after=self.after)
        pages = self.daemon.pages
        return pages.pop(0) if len(pages) > 1 else pages[0]

    async def follow(self) -> AsyncGenerator[Mapping[str, Any]]:
        while True:
            page = await self.page()
            for one in page["events"]:
                yield one
                self.after = one["version"]
            if page["terminal"]:
                return
            await anyio.lowlevel.checkpoint()


@dataclass(frozen=True)
class Result:
    """What a command line gave back."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def error(self) -> Any:
        return json.loads(self.err.strip().splitlines()[-1])["error"]


class RunCli(Protocol):
    def __call__(self, *arguments: str) -> Result: ...
