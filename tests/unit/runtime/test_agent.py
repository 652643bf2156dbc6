"""Agents and apps: what is refused, and the data they become."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from msgspec import Struct

from messages.canon import canonical
from messages.errors import DeclarationError, NotFound
from messages.parts import Problem
from runtime.agent import Agent, App, Budget, Progress
from runtime.loop.strategies.loop import control_tools
from runtime.tools.declare import Ctx, Request, Ruling, Unmet, allow, deny, read, write
from runtime.tools.draft import Draft


class Outcome(Struct):
    refunded: int


class Node(Struct):
    children: "list[Node]"


@read(scope="orders:read")
async def lookup(ctx: Ctx[None], order_id: str) -> str:
    """Look up."""
    return order_id


def other_lookup() -> Any:
    @read
    async def lookup(ctx: Ctx[None], order_id: str) -> str:
        """Look up something else."""
        return order_id

    return lookup


def make(**changes: Any) -> Any:
    options: dict[str, Any] = {
        "model": "m",
        "instructions": "Be exact.",
        "tools": [lookup],
    } | changes
    return Agent(options.pop("name", "refund"), **options)


def satisfied(draft: Draft[Any]) -> Unmet | None:
    return None


def async_done() -> None:
    @make().done
    async def done(draft: Draft[None]) -> Unmet | None: ...


def done_with_two_parameters() -> None:
    @make().done
    def done(draft: Draft[None], other: int) -> Unmet | None: ...


def done_twice() -> None:
    agent = make()
    agent.done(satisfied)
    agent.done(satisfied)


def wrong(value: object) -> Any:
    """A value that the types would refuse."""
    return value


@asynccontextmanager
async def open_shop() -> AsyncGenerator[str]:
    yield "shop"


async def bare_shop() -> AsyncGenerator[str]:
    yield "shop"


REFUSED: list[tuple[Callable[[], object], str]] = [
    (lambda: make(name="a b"), "use 1 to 64 of the characters"),
    (lambda: make(name=""), "use 1 to 64 of the characters"),
    (lambda: make(name="x" * 65), "use 1 to 64 of the characters"),
    (lambda: make(name="ref.und"), "use 1 to 64 of the characters"),
    (lambda: make(model=""), "needs model= as text"),
    (lambda: make(instructions=" "), "needs instructions= as text"),
    (lambda: make(tools=[lookup, lookup]), "two tools named 'lookup'"),
    (lambda: make(tools=[lookup, other_lookup()]), "two tools named 'lookup'"),
    (lambda: make(tools=[open_shop]), "open_shop is no tool; put @read or @write above it"),
    (lambda: make(tools=["lookup"]), "is no tool"),
    (lambda: make(outputs=Outcome), "no option 'outputs'; did you mean 'output'"),
    (lambda: make(budget={"max_steps": 3}), r"budget= is Budget\(...\)"),
    (lambda: make(progress=None), r"progress= is Progress\(...\)"),
    (lambda: make(on_policy_deny="ignore"), "on_policy_deny= is one of end, tell"),
    (lambda: make(on_expired_approval="run"), "one of tell, needs_input"),
    (lambda: make(approval_ttl=30), "approval_ttl= is a positive timedelta"),
    (lambda: make(approval_ttl=timedelta()), "approval_ttl= is a positive timedelta"),
    (lambda: make(max_wait=3600), "max_wait= is a positive timedelta"),
    (lambda: make(max_wait=timedelta()), "max_wait= is a positive timedelta"),
    (lambda: make(max_wait=timedelta.max), "max_wait= is at most 366 days"),
    (lambda: make(max_output_tokens=0), "positive whole number"),
    (lambda: make(models="tiny"), "models= is a model by role"),
    (lambda: make(models={"planner": "tiny"}), "models= has no role 'planner'; there is final"),
    (lambda: make(models={"final": " "}), "models= needs final= as text"),
    (lambda: make(escalate_to="a b"), "escalate_to= is a group"),
    (lambda: make(output=Node), "agent 'refund', output: type Node contains itself"),
    (lambda: make(output=object), "agent 'refund', output: object has no JSON schema"),
    (async_done, "must be a plain def"),
    (done_with_two_parameters, r"takes one draft: def done\(draft: Draft\[...\]\)"),
    (done_twice, "there is one already"),
    (lambda: Budget(max_steps=0), "max_steps= is a positive whole number"),
    (lambda: Budget(max_steps=wrong(2.5)), "max_steps= is a positive whole number"),
    (lambda: Budget(max_tokens=True), "max_tokens= is a positive whole number"),
    (lambda: Budget(max_seconds=-1), "max_seconds= is a positive number"),
    (lambda: Budget(max_seconds=float("nan")), "max_seconds= is a positive number"),
    (lambda: Budget(max_usd=wrong(0.5)), "write max_usd='0.50'"),
    (lambda: Budget(max_usd="a lot"), "write max_usd='0.50'"),
    (lambda: Progress(warn_at=4, stop_at=3), "must be at least warn_at=4"),
    (lambda: Progress(window=0), "window= is a positive whole number"),
    (App, r"App\(refund, deps=open_shop\)"),
    (lambda: App(make(), make()), "two agents are named 'refund'"),
    (
        lambda: App(make(), make(name="b", tools=[other_lookup()])),
        "two tools are named 'lookup'.*rename one",
    ),
    (lambda: App(make(), deps=wrong(bare_shop)), "put @asynccontextmanager above it"),
    (lambda: App(make(), deps=wrong("shop")), "returns an async context manager"),
]


@pytest.mark.parametrize(("declare", "message"), REFUSED, ids=lambda each: str(each)[:30])
def test_refused(declare: Callable[[], object], message: str) -> None:
    with pytest.raises(DeclarationError, match=message):
        declare()


def test_an_agent_as_data() -> None:
    agent = make(
        output=Outcome,
        budget=Budget(max_steps=8, max_tokens=40_000, max_usd="0.50", max_seconds=120),
        progress=Progress(2, 3, 4, 5),
        escalate_to="lead",
        max_tool_errors=9,
    )
    agent.done(satisfied)
    spec = agent.spec()
    assert spec.limits.max_cost_microusd == 500_000
    assert (spec.progress.warn_at, spec.progress.window) == (2, 5)
    assert (spec.errors.escalate_to, spec.errors.max_total, spec.errors.max_corrections) == (
        "lead",
        9,
        3,
    )
    assert spec.has_done
    assert spec.output_schema is not None
    assert spec.output_schema["type"] == "object"
    assert [tool.name for tool in spec.tools] == ["lookup"]


def test_defaults_are_those_of_the_contract() -> None:
    spec = make().spec()
    assert (spec.limits.max_steps, spec.limits.max_tokens) == (25, 200_000)
    assert (spec.limits.max_cost_microusd, spec.limits.max_seconds) == (None, 300.0)
    assert (spec.progress.warn_at, spec.progress.stop_at) == (3, 4)
    assert (spec.progress.stall_at, spec.progress.window) == (3, 6)
    assert (spec.errors.max_consecutive, spec.errors.max_total, spec.errors.max_corrections) == (
        3,
        4,
        3,
    )
    assert (spec.on_policy_deny, spec.on_expired_approval) == ("end", "tell")
    assert spec.approval_ttl_s == 7200.0


def pay_with(rule: Any) -> Any:
    @write(key="k:{n}")
    async def pay(ctx: Ctx[None], n: int) -> None:
        """Pay."""

    if rule is not None:
        pay.rule(rule)
    return pay


def allows(req: Request, n: int) -> Ruling:
    return allow()


def denies(req: Request, n: int) -> Ruling:
    return deny("no")


def test_the_code_hash_follows_what_was_declared() -> None:
    agents = [
        make(),
        make(instructions="Be quick."),
        make(model="n"),
        make(max_output_tokens=9),
        make(tools=[pay_with(None)]),
        make(tools=[pay_with(allows)]),
        make(tools=[pay_with(denies)]),
        make(output=Outcome),
    ]
    done = make()
    done.done(satisfied)
    hashes = [each.spec().code for each in [*agents, done]]
    assert len(set(hashes)) == len(hashes)
    assert make().spec().code == hashes[0]


def test_prompt_bytes_bound_the_tokens_of_every_request() -> None:
    spec = make(instructions="ü" * 100).spec()
    controls = len(canonical(list(control_tools(None))))
    assert spec.prompt_bytes > 200 + len(canonical(spec.tools[0].parameters)) + controls


def test_outputs_are_decoded_strictly() -> None:
    agent = make(output=Outcome)
    decoded = agent.decode_output({"refunded": 5})
    assert decoded.value == Outcome(5)
    assert decoded.canonical == {"refunded": 5}
    for wrong in ({"refunded": "5"}, {"refunded": 5, "x": 1}, {}, "five", None):
        problem = agent.decode_output(wrong)
        assert isinstance(problem, Problem)
        assert problem.code == "BAD_OUTPUT"


def test_an_agent_without_output_hands_in_anything() -> None:
    decoded = make().decode_output("done\0")
    assert (decoded.value, decoded.canonical) == (None, "done\ufffd")


def test_an_app_by_name() -> None:
    app = App(make(), make(name="other", tools=[lookup, pay_with(None)]))
    assert list(app.agents) == ["refund", "other"]
    assert list(app.tools) == ["lookup", "pay"]
    assert app.tool("lookup") is lookup
    assert app.tools.scopes == ("orders:read",)
    assert app.specs["other"] == app.agent("other").spec()
    with pytest.raises(NotFound, match="no tool 'x'"):
        app.tool("x")
    with pytest.raises(NotFound, match="no agent 'x'"):
        app.agent("x")


async def test_deps_are_open_inside_the_block_only() -> None:
    states: list[str] = []

    @asynccontextmanager
    async def open_it() -> AsyncGenerator[str]:
        states.append("open")
        yield "shop"
        states.append("closed")

    async with App(make(), deps=open_it).open_deps() as deps:
        assert deps == "shop"
        assert states == ["open"]
    assert states == ["open", "closed"]
    async with App(make()).open_deps() as nothing:
        assert nothing is None
