"""The app whose runs are simulated: one tool of every class of effect, and a model with a plan.

The model proposes what of its plan has no good result yet, until nothing is left.
"""

from collections.abc import Iterable
from contextvars import ContextVar
from datetime import timedelta
from typing import Any

import msgspec

from runtime.model.scripted import Turn, View, finish, say, turn
from runtime.model.scripted import call as proposes
from tests.simulation.options import LATE_S, TIMEOUT_S, Job, Kind
from tests.simulation.shop import MUTE, Shop
from treadle import (
    Agent,
    App,
    Budget,
    Ctx,
    Draft,
    Request,
    Ruling,
    Unmet,
    allow,
    ask,
    each_call,
    read,
    write,
)

Plan = list[list[tuple[str, dict[str, Any]]]]
APPROVAL_S = 6.0
ROGUE = "rogue"
"""What nobody who is allowed to ever looks at."""


@read(timeout_s=TIMEOUT_S)
async def look(ctx: Ctx[Shop], what: str) -> int:
    """Look at something."""
    return await ctx.deps.look(what)


@write(
    key="pay:{order}",
    replay_for=timedelta(days=1),
    timeout_s=TIMEOUT_S,
    late_commit_s=LATE_S,
)
async def pay(ctx: Ctx[Shop], order: str, amount: int) -> int:
    """Pay; the same key again is the same payment."""
    del amount
    return await ctx.deps.do(ctx.idempotency_key, f"pay {order}", is_honoured=True)


@pay.rule
def is_large(req: Request, order: str, amount: int) -> Ruling:
    """A person decides on large amounts."""
    del req, order
    return ask("anyone", "large") if amount > 100 else allow()


@pay.precondition
async def is_owed(ctx: Ctx[Shop], order: str, amount: int) -> Unmet | None:
    """Looks at the order again."""
    del amount
    _ = await ctx.deps.look(order)
    return None


@write(key="book:{seat}", timeout_s=TIMEOUT_S, late_commit_s=LATE_S)
async def book(ctx: Ctx[Shop], seat: str) -> int:
    """Book; the same key again books again."""
    return await ctx.deps.do(ctx.idempotency_key, f"book {seat}", is_honoured=False)


@book.rule
def may_book(req: Request, seat: str) -> Ruling:
    """Anybody may."""
    del req, seat
    return allow()


@book.lookup
async def find_booking(ctx: Ctx[Shop], seat: str) -> int | None:
    """Whether it is booked."""
    del seat
    return await ctx.deps.find(ctx.idempotency_key)


@write(key="gift:{to}", timeout_s=TIMEOUT_S, late_commit_s=LATE_S)
async def gift(ctx: Ctx[Shop], to: str) -> int:
    """Give; nobody can say afterwards whether it arrived."""
    return await ctx.deps.do(ctx.idempotency_key, f"gift {to}", is_honoured=False)


@write(key=each_call, replay_for=timedelta(days=1), timeout_s=TIMEOUT_S, late_commit_s=LATE_S)
async def note(ctx: Ctx[Shop], text: str) -> int:
    """Write a note; each is one of its own."""
    del text
    return await ctx.deps.do(ctx.idempotency_key, "", is_honoured=True)


@note.rule
def may_note(req: Request, text: str) -> Ruling:
    """Anybody may."""
    del req, text
    return allow()


class Outcome(msgspec.Struct):
    """What a run hands in."""

    writes: int


AGENT = Agent(
    "clerk",
    model="scripted",
    instructions="Do what the plan says.",
    output=Outcome,
    tools=[look, pay, book, gift, note],
    budget=Budget(max_steps=8, max_tokens=60_000, max_usd="0.30"),
    max_output_tokens=256,
    window_tokens=7_200,  # two turns, and older results are left out; then there is a summary
    approval_ttl=timedelta(seconds=APPROVAL_S),
)
WRITES = (pay, book, gift, note)


@AGENT.done
def has_all(draft: Draft[Outcome]) -> Unmet | None:
    """As many writes ended well as were planned."""
    done = sum(len(draft.results(tool.name)) for tool in WRITES)
    return None if done >= draft.output.writes else Unmet("something is missing")


def plan_of(job: Job) -> Plan:
    """The turns that a job takes."""
    name = job.name
    look_at, seat = ("look", {"what": name}), ("book", {"seat": name})
    plans: dict[Kind, Plan] = {
        "pay": [[look_at], [("pay", {"order": name, "amount": 10})]],
        "approved": [[("pay", {"order": name, "amount": 500})], [look_at]],
        "book": [[seat], [look_at]],
        "gift": [[("gift", {"to": name})]],
        "note": [[("note", {"text": "a"})], [("note", {"text": "b"})]],
        "parallel": [[seat, look_at, ("gift", {"to": name})]],
        "shared": [[("book", {"seat": name[:2]})]],
        "poor": [[look_at], [seat]],
        "thrifty": [[look_at], [seat]],
        "ask": [[look_at]],
        "long": [[("look", {"what": f"{name} {page * 400}"})] for page in "abcd"] + [[seat]],
        "deadly": [[look_at]],
        "once": [[("pay", {"order": name, "amount": 10})]],
        "mute": [[("pay", {"order": f"{MUTE}-{name}", "amount": 10})]],
    }
    return plans[job.kind]


def plays(view: View) -> Turn:
    """What the model says: the first turn of the plan of which something is missing."""
    if view.is_final:
        return say("that is all")
    plan: Plan = view.inputs["plan"]
    done = _done(view)
    for calls in plan:
        missing = [(tool, given) for tool, given in calls if (tool, _key(given)) not in done]
        if missing:
            return turn(*(proposes(tool, **given) for tool, given in missing))
    if view.inputs.get("asks") and "continued" not in view.inputs:
        return proposes("ask_user", question="Which?")
    names = {tool.name for tool in WRITES}
    return finish({"writes": sum(tool in names for calls in plan for tool, _ in calls)})


def _key(given: dict[str, Any]) -> bytes:
    return msgspec.json.encode(given, order="sorted")


def _blocks(content: Any) -> Iterable[dict[str, Any]]:
    return () if isinstance(content, str) else content


def _done(view: View) -> set[tuple[str, bytes]]:
    """The calls of this conversation that have a good result."""
    asked: dict[str, tuple[str, bytes]] = {}
    done = _on_record(view)
    for message in view._messages:
        for block in _blocks(message["content"]):
            if block["type"] == "tool_use":
                asked[block["id"]] = (block["name"], _key(block["input"]))
            elif block["type"] == "tool_result" and not block.get("is_error"):
                done.add(asked[block["tool_use_id"]])
    return done


def _on_record(view: View) -> set[tuple[str, bytes]]:
    """The notes that are done, though their turns were summed up: each is an effect of its own."""
    first = view._messages[0]["content"]
    record = next((b["text"] for b in first if b.get("text", "").startswith("On record")), "")
    planned = [(tool, _key(given)) for calls in view.inputs["plan"] for tool, given in calls]
    return set([call for call in planned if call[0] == note.name][: record.count("note (call:")])


SHOP: ContextVar[Shop] = ContextVar("shop")
"""The shop of the world that a process lives in."""
APP = App(AGENT, deps=lambda: SHOP.get().opened(), script=plays)
