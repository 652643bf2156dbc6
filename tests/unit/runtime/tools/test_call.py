"""How calls end, as tools really end them: in place, in threads, at deadlines, cancelled."""

import asyncio
import contextvars
import sys
import threading
from collections.abc import Callable
from typing import Any

import anyio
import pytest
from msgspec import Struct

from messages.errors import Correctable, ToolError, Transient, Unknown, Unrecoverable
from runtime.clock import FakeClock, FixedIds, MachineClock
from runtime.tools.call import Caller
from runtime.tools.declare import Ctx, Unmet, read, write
from runtime.tools.draft import Draft
from runtime.tools.workers import Workers

CTX = Ctx(None, "key-1", "run-1", "default", "ann")


class Refund(Struct):
    id: str


class Vague(ToolError):
    """An error of ours that promises nothing."""


class Misleading(Transient, Unknown):
    """Both at once: the one that promises less counts."""


def returns() -> Refund:
    return Refund("r-1")


def returns_nothing() -> None:
    """Return nothing."""


def returns_an_object() -> Any:
    return object()


def returns_too_much() -> str:
    return "x" * 9_000_000


def raises(error: BaseException) -> Callable[[], Any]:
    def fail() -> Any:
        raise error

    return fail


def exits() -> Any:
    sys.exit(3)


CASES: list[tuple[str, Callable[[], Any], str, str, str]] = [
    # what the tool does, for a read, for a write, code of the problem
    ("returns", returns, "ok", "ok", ""),
    ("returns None", returns_nothing, "ok", "ok", ""),
    ("returns what cannot be kept", returns_an_object, "error", "ok", "UNENCODABLE"),
    ("returns too much", returns_too_much, "error", "ok", "RESULT_TOO_LARGE"),
    ("Transient", raises(Transient("busy", hint="later")), "error", "error", "TRANSIENT"),
    ("Correctable", raises(Correctable("no such payment")), "error", "error", "CORRECTABLE"),
    ("Unrecoverable", raises(Unrecoverable("closed")), "error", "error", "UNRECOVERABLE"),
    ("Unknown", raises(Unknown("maybe")), "error", "unknown", "UNKNOWN"),
    ("a subclass of both", raises(Misleading("?")), "error", "unknown", "TRANSIENT"),
    ("another error of ours", raises(Vague("?")), "error", "unknown", "TOOL"),
    ("a bug", raises(KeyError("x")), "error", "unknown", "TOOL_FAILED"),
    ("a timeout of its own", raises(TimeoutError()), "error", "unknown", "TOOL_FAILED"),
    (
        "a group of Transient",
        raises(ExceptionGroup("", [Transient()])),
        "error",
        "unknown",
        "TOOL_FAILED",
    ),
    ("StopIteration", raises(StopIteration(1)), "error", "unknown", "TOOL_FAILED"),
    ("exit", exits, "error", "unknown", "TOOL_FAILED"),
]


@pytest.fixture
def caller() -> Caller:
    return Caller(
        clock=MachineClock(), ids=FixedIds(), chance=lambda: 0.0, workers=Workers(slots=2)
    )


def make(kind: str, body: Callable[[], Any], *, is_async: bool, timeout_s: float = 30.0) -> Any:
    if is_async:

        async def act(ctx: Ctx[None], n: int) -> Any:
            """Act."""
            return body()

        function: Any = act
    else:

        def act_sync(ctx: Ctx[None], n: int) -> Any:
            """Act."""
            return body()

        function = act_sync
    declare: Any = read(timeout_s=timeout_s)
    if kind == "write":
        declare = write(key="k:{n}", timeout_s=timeout_s)
    return declare(function)


@pytest.mark.parametrize("is_async", [True, False], ids=["async", "thread"])
@pytest.mark.parametrize("kind", ["read", "write"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
async def test_outcome_table(case: Any, kind: str, is_async: bool, caller: Caller) -> None:
    _, body, as_read, as_write, code = case
    called = await caller.call(make(kind, body, is_async=is_async), CTX, {"n": 1})
    assert called.kind == (as_read if kind == "read" else as_write)
    if called.kind == "ok" and code:
        assert called.notes[0].startswith("the result could not be kept")
        assert called.value is None
    else:
        assert (called.problem.code if called.problem else "") == code
    assert called.request_id


async def test_a_result_is_clean_and_sized(caller: Caller) -> None:
    called = await caller.call(make("read", lambda: {"x": "a\0"}, is_async=True), CTX, {"n": 1})
    assert called.value == {"x": "a\ufffd"}
    assert called.size == len('{"x":"a\ufffd"}'.encode())
    assert called.notes


@pytest.mark.parametrize(("kind", "wanted"), [("read", "error"), ("write", "unknown")])
async def test_an_async_tool_at_its_deadline(kind: str, wanted: str, caller: Caller) -> None:
    async def hang(ctx: Ctx[None], n: int) -> None:
        """Hang."""
        await anyio.sleep_forever()

    tool: Any = read(hang) if kind == "read" else write(key="k:{n}")(hang)
    called = await caller.call(tool, CTX, {"n": 1}, timeout_s=0.01)
    assert called.kind == wanted
    assert called.problem is not None
    assert called.problem.code == "TOOL_DEADLINE"
    assert len(called.attempts) == 1


@pytest.mark.parametrize("is_async", [True, False])
@pytest.mark.parametrize("kind", ["read", "write"])
async def test_a_tool_whose_time_is_up_is_never_called(
    kind: str, is_async: bool, caller: Caller
) -> None:
    # As after a pause of the whole process between the claim and the call: W counts from the claim.
    called_with: list[str] = []
    tool = make(kind, lambda: called_with.append("called"), is_async=is_async)
    called = await caller.call(tool, CTX, {"n": 1}, timeout_s=0.0)
    assert called_with == []
    assert called.kind == "error"
    assert called.problem is not None
    assert called.problem.code == "NOT_STARTED"


@pytest.mark.parametrize(("kind", "wanted"), [("read", "error"), ("write", "unknown")])
async def test_a_thread_at_its_deadline_is_left_behind(kind: str, wanted: str) -> None:
    workers, go = Workers(slots=1), threading.Event()
    caller = Caller(clock=MachineClock(), ids=FixedIds(), chance=lambda: 0.0, workers=workers)
    tool = make(kind, go.wait, is_async=False)
    called = await caller.call(tool, CTX, {"n": 1}, timeout_s=0.01)
    assert called.kind == wanted
    assert called.problem is not None
    assert called.problem.code == "TOOL_DEADLINE"
    # It still holds the only slot: the next one was never called, which is no unknown outcome.
    assert workers.busy == 1
    starved = await caller.call(tool, CTX, {"n": 1}, timeout_s=0.01)
    assert starved.kind == "error"
    assert starved.problem is not None
    assert starved.problem.code == "NOT_STARTED"
    go.set()
    with anyio.fail_after(5):
        while workers.busy:
            await anyio.lowlevel.checkpoint()
    assert (await caller.call(tool, CTX, {"n": 1})).kind == "ok"


@pytest.mark.parametrize(("kind", "wanted"), [("read", "error"), ("write", "unknown")])
async def test_a_tool_that_cancels_itself(kind: str, wanted: str, caller: Caller) -> None:
    called = await caller.call(
        make(kind, raises(asyncio.CancelledError()), is_async=True), CTX, {"n": 1}
    )
    assert called.kind == wanted
    assert called.problem is not None
    assert called.problem.message == "it cancelled itself"


async def test_cancelling_the_caller_cancels_the_tool(caller: Caller) -> None:
    seen: list[str] = []

    @write(key="k:{n}")
    async def hang(ctx: Ctx[None], n: int) -> None:
        """Hang."""
        try:
            seen.append("started")
            await anyio.sleep_forever()
        finally:
            seen.append("cancelled")

    async def call() -> None:
        await caller.call(hang, CTX, {"n": 1})

    async with anyio.create_task_group() as group:
        group.start_soon(call)
        while not seen:
            await anyio.lowlevel.checkpoint()
        group.cancel_scope.cancel()
    assert seen == ["started", "cancelled"]


async def test_an_answer_after_the_deadline_still_counts(caller: Caller) -> None:
    @write(key="k:{n}")
    async def stubborn(ctx: Ctx[None], n: int) -> str:
        """Finish although cancelled."""
        try:
            await anyio.sleep_forever()
        except asyncio.CancelledError:
            return "done"
        return "never"

    called = await caller.call(stubborn, CTX, {"n": 1}, timeout_s=0.01)
    assert (called.kind, called.value) == ("ok", "done")


async def test_a_sync_function_that_returns_an_awaitable(caller: Caller) -> None:
    async def later() -> str:
        return "done"

    called = await caller.call(make("read", later, is_async=False), CTX, {"n": 1})
    assert called.value == "done"


async def test_a_thread_sees_the_context_of_its_caller(caller: Caller) -> None:
    trace: contextvars.ContextVar[str] = contextvars.ContextVar("trace")
    trace.set("t-1")
    called = await caller.call(make("read", trace.get, is_async=False), CTX, {"n": 1})
    assert called.value == "t-1"


async def test_a_read_is_tried_again_after_transient_and_nothing_else() -> None:
    clock, tries = FakeClock(), 0
    caller = Caller(clock=clock, ids=FixedIds(), chance=lambda: 0.5, workers=Workers())

    def body() -> str:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise Transient(f"try {tries}")
        return "done"

    results: list[Any] = []

    async def run() -> None:
        results.append(await caller.call(make("read", body, is_async=True), CTX, {"n": 1}))

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        for number, pause_s in enumerate((0.1, 0.2), start=1):
            while tries < number or not clock.sleepers:
                await anyio.lowlevel.checkpoint()
            clock.advance(pause_s)
    (called,) = results
    assert (called.kind, called.value) == ("ok", "done")
    assert [each.request_id for each in called.attempts] == ["req-1", "req-2", "req-3"]
    assert [each.error and each.error.message for each in called.attempts] == [
        "try 1",
        "try 2",
        None,
    ]
    assert called.request_id == "req-3"
    assert called.duration_s == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("kind", "error", "tries"),
    [
        ("read", Transient(), 3),
        ("read", Correctable(), 1),
        ("read", KeyError(), 1),
        ("write", Transient(), 1),
    ],
)
async def test_how_often_a_call_is_tried(
    kind: str, error: Exception, tries: int, caller: Caller
) -> None:
    called = await caller.call(make(kind, raises(error), is_async=True), CTX, {"n": 1})
    assert called.kind == "error"
    assert len(called.attempts) == tries


async def test_no_attempt_begins_after_the_deadline() -> None:
    clock = FakeClock()
    caller = Caller(clock=clock, ids=FixedIds(), chance=lambda: 0.9, workers=Workers())

    def slow() -> None:
        clock.advance(29.9)
        raise Transient

    called = await caller.call(make("read", slow, is_async=True), CTX, {"n": 1})
    assert len(called.attempts) == 1


async def test_errors_keep_their_type_and_500_characters(caller: Caller) -> None:
    called = await caller.call(
        make("read", raises(ValueError("x" * 9999 + "\0")), is_async=True), CTX, {"n": 1}
    )
    assert called.problem is not None
    assert called.problem.message.startswith("ValueError: xxx")
    assert len(called.problem.message) == 500


def hooked(precondition: Any = None, lookup: Any = None) -> Any:
    @write(key="k:{n}")
    async def pay(ctx: Ctx[None], n: int) -> Refund:
        """Pay."""
        return Refund("r")

    if precondition is not None:

        @pay.precondition
        async def holds(ctx: Ctx[None], n: int) -> Unmet | None:
            return precondition()

    if lookup is not None:

        @pay.lookup
        async def find(ctx: Ctx[None], n: int) -> Refund | None:
            return lookup()

    return pay


@pytest.mark.parametrize(
    ("body", "unmet", "code"),
    [
        (None, None, None),
        (lambda: None, None, None),
        (lambda: Unmet("already paid"), "already paid", None),
        (lambda: True, None, "HOOK_FAILED"),
        (raises(Transient("busy")), None, "TRANSIENT"),
        (raises(KeyError("x")), None, "TOOL_FAILED"),
    ],
)
async def test_preconditions(
    body: Any, unmet: str | None, code: str | None, caller: Caller
) -> None:
    verdict = await caller.precondition(hooked(precondition=body), CTX, {"n": 1})
    assert verdict.unmet == unmet
    assert (verdict.problem and verdict.problem.code) == code


@pytest.mark.parametrize(
    ("body", "kind", "is_there"),
    [
        (returns, "ok", True),
        (returns_an_object, "ok", True),
        (returns_nothing, "ok", False),
        (raises(Unknown("cannot tell")), "unknown", False),
        (raises(Transient("busy")), "unknown", False),
        (raises(Correctable("no such payment")), "unknown", False),
        (raises(KeyError("x")), "unknown", False),
    ],
)
async def test_lookups(body: Any, kind: str, is_there: bool, caller: Caller) -> None:
    found = await caller.lookup(hooked(lookup=body), CTX, {"n": 1})
    assert (found.kind, found.is_there) == (kind, is_there)
    assert (found.problem is None) is (kind == "ok")


async def test_a_lookup_that_was_not_declared(caller: Caller) -> None:
    with pytest.raises(ValueError, match="has no lookup"):
        await caller.lookup(hooked(), CTX, {"n": 1})


async def test_judging_ends_at_its_deadline(caller: Caller) -> None:
    go = threading.Event()

    def never(draft: Draft[None]) -> Unmet | None:
        go.wait()
        return None

    verdict = await caller.judge(never, Draft(None), timeout_s=0.01)
    go.set()
    assert verdict.problem is not None
    assert verdict.problem.code == "TOOL_DEADLINE"
    told = await caller.judge(lambda _: Unmet("not told"), Draft(None))
    assert told.unmet == "not told"


async def test_pure_functions_answer_or_say_why(caller: Caller) -> None:
    assert await caller.pure(lambda: 5) == 5
    failed: Any = await caller.pure(raises(KeyError("x")))
    assert failed.code == "TOOL_FAILED"
