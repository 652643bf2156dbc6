"""Everything that import time refuses, each with a message that says what to write instead."""

from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from decimal import Decimal
from typing import Annotated, Any, cast

import pytest
from msgspec import Meta, Struct

from messages.errors import DeclarationError
from runtime.tools.declare import (
    Ctx,
    Request,
    Ruling,
    Tool,
    Unmet,
    allow,
    ask,
    deny,
    each_call,
    read,
    write,
)


class Refund(Struct):
    id: str


class Tree(Struct):
    children: "list[Tree]"


class Opaque:
    """No struct, no dataclass."""


READ: Any = read
"""Without its types, for what they would refuse."""


def declare_write(key: Any = "refund:{order_id}:v1", **options: Any) -> Any:
    async def issue_refund(ctx: Ctx[None], order_id: str, amount: int) -> Refund:
        """Refund an order."""
        return Refund(f"{order_id}/{amount}/{ctx.idempotency_key}")

    return write(key=key, **options)(issue_refund)


def untyped() -> None:
    @read
    async def lookup(ctx: Ctx[None], order_id) -> str:  # noqa: ANN001  # pyright: ignore[reportMissingParameterType, reportUnknownParameterType]
        """Look up."""
        return "x"


def typed_any() -> None:
    @read
    async def lookup(ctx: Ctx[None], order_id: Any) -> str:
        """Look up."""
        return str(order_id)


def typed_object() -> None:
    @read
    async def lookup(ctx: Ctx[None], order_id: object) -> str:
        """Look up."""
        return str(order_id)


def no_docstring() -> None:
    @read
    async def lookup(ctx: Ctx[None], order_id: str) -> str:
        return order_id


def no_context() -> None:
    async def lookup(order_id: str) -> str:
        """Look up."""
        return order_id

    READ(lookup)


def star_args() -> None:
    @read
    async def lookup(ctx: Ctx[None], *order_ids: str) -> str:
        """Look up."""
        return str(order_ids)


def star_kwargs() -> None:
    @read
    async def lookup(ctx: Ctx[None], **options: str) -> str:
        """Look up."""
        return str(options)


def positional_only() -> None:
    @read
    async def lookup(ctx: Ctx[None], order_id: str, /) -> str:
        """Look up."""
        return order_id


def write_without_key() -> None:
    @write
    async def pay(ctx: Ctx[None], order_id: str) -> str:
        """Pay."""
        return order_id


def write_with_options_but_no_key() -> None:
    declare_write(key=None, scope="x")


def key_of_unknown_parameter() -> None:
    declare_write("refund:{payment_id}:v1")


def key_without_parameter() -> None:
    declare_write("refund:v1")


def key_with_space() -> None:
    declare_write("refund {order_id}")


def key_with_open_brace() -> None:
    declare_write("refund:{order_id")


def key_with_unknown_filter() -> None:
    declare_write("refund:{order_id|md5}")


def key_with_adjacent_parameters() -> None:
    declare_write("refund:{order_id}{amount}")


def key_is_a_number() -> None:
    declare_write(5)


def key_of_a_list() -> None:
    @write(key="tag:{names}")
    async def tag(ctx: Ctx[None], names: list[str]) -> None:
        """Tag."""


def key_of_a_float() -> None:
    @write(key="pay:{amount}")
    async def pay(ctx: Ctx[None], amount: float) -> None:
        """Pay."""


def replay_for_on_a_read() -> None:
    READ(replay_for=timedelta(days=1))(str)


def key_on_a_read() -> None:
    READ(key="x:{order_id}")(str)


def cache_on_a_write() -> None:
    declare_write(cache_s=5)


def misspelt_option() -> None:
    READ(scop="x")(str)


def timeout_of_zero() -> None:
    declare_write(timeout_s=0)


def timeout_of_true() -> None:
    declare_write(timeout_s=True)


def scope_that_is_no_text() -> None:
    declare_write(scope=("a", "b"))


def replay_for_a_number() -> None:
    declare_write(replay_for=30)


def reserved_name() -> None:
    @read
    async def finish(ctx: Ctx[None]) -> None:
        """Finish."""


def unicode_name() -> None:
    @read
    async def prüfe(ctx: Ctx[None]) -> None:  # noqa: PLC2401
        """Check."""


def no_function() -> None:
    READ(Opaque)


def generator() -> None:
    @read
    async def lookup(ctx: Ctx[None]) -> AsyncIterator[str]:
        """Look up."""
        yield "x"


def decimal_with_meta() -> None:
    @read
    async def price(ctx: Ctx[None], amount: Annotated[Decimal, Meta(gt=0)]) -> str:
        """Price."""
        return str(amount)


def opaque_parameter() -> None:
    @read
    async def lookup(ctx: Ctx[None], what: Opaque) -> str:
        """Look up."""
        return str(what)


def opaque_result() -> None:
    @read
    async def lookup(ctx: Ctx[None]) -> Opaque:
        """Look up."""
        return Opaque()


def recursive_parameter() -> None:
    @read
    async def lookup(ctx: Ctx[None], tree: Tree) -> str:
        """Look up."""
        return str(tree)


def default_of_another_type() -> None:
    @read
    async def lookup(ctx: Ctx[None], limit: int = "3") -> str:  # pyright: ignore[reportArgumentType]
        """Look up."""
        return str(limit)


def type_that_cannot_be_found() -> None:
    @read
    async def lookup(ctx: Ctx[None], order: "Nowhere") -> str:  # noqa: F821  # pyright: ignore[reportUndefinedVariable, reportUnknownParameterType]
        """Look up."""
        return "x"


def rule_with_fewer_parameters() -> None:
    @declare_write().rule
    def over(req: Request, order_id: str) -> Ruling:
        return allow()


def rule_with_other_type() -> None:
    @declare_write().rule
    def over(req: Request, order_id: str, amount: str) -> Ruling:
        return allow()


def rule_with_other_order() -> None:
    @declare_write().rule
    def over(req: Request, amount: int, order_id: str) -> Ruling:
        return allow()


def rule_that_takes_ctx() -> None:
    @declare_write().rule
    def over(ctx: Ctx[None], order_id: str, amount: int) -> Ruling:
        return allow()


def async_rule() -> None:
    @declare_write().rule
    async def over(req: Request, order_id: str, amount: int) -> Ruling:
        return allow()


def second_rule() -> None:
    tool = declare_write()
    for _ in range(2):

        @tool.rule
        def over(req: Request, order_id: str, amount: int) -> Ruling:
            return allow()


def precondition_with_other_parameters() -> None:
    @declare_write().precondition
    async def owed(ctx: Ctx[None], order: str, amount: int) -> Unmet | None: ...


def lookup_with_other_parameters() -> None:
    @declare_write().lookup
    async def find(ctx: Ctx[None], order_id: str) -> Refund | None: ...


def lookup_of_a_read() -> None:
    @read
    async def get(ctx: Ctx[None], order_id: str) -> str:
        """Get."""
        return order_id

    get.lookup(get.function)


def precondition_of_a_read() -> None:
    @read
    async def get(ctx: Ctx[None], order_id: str) -> str:
        """Get."""
        return order_id

    get.precondition(get.function)


def lookup_of_a_write_that_returns_nothing() -> None:
    @write(key="note:{order_id}")
    async def note(ctx: Ctx[None], order_id: str) -> None:
        """Note."""

    @note.lookup
    async def find(ctx: Ctx[None], order_id: str) -> None: ...


REFUSED: list[tuple[Callable[[], None], str]] = [
    (untyped, "parameter 'order_id' is untyped: write order_id: str"),
    (typed_any, "Any says nothing to check; write order_id: str"),
    (typed_object, "object says nothing to check; write order_id: str"),
    (no_docstring, "has no docstring.*add one, such as"),
    (no_context, r"must take ctx: Ctx\[Shop\] first: def lookup\(ctx: Ctx\[Shop\], ...\)"),
    (star_args, "write each parameter out"),
    (star_kwargs, "write each parameter out"),
    (positional_only, "write each parameter out"),
    (write_without_key, r"write tool 'pay': a write needs a key; .*key='refund:.*key=each_call"),
    (write_with_options_but_no_key, "a write needs a key"),
    (key_of_unknown_parameter, "'payment_id', which is no parameter; there are: order_id, amount"),
    (key_without_parameter, "names no parameter.*or write key=each_call"),
    (key_with_space, "visible ASCII without spaces, such as"),
    (key_with_open_brace, r"a parameter is written \{order_id\}"),
    (key_with_unknown_filter, r"no filter 'md5'; the only one is \{order_id\|sha256\}"),
    (key_with_adjacent_parameters, "put ':' between them"),
    (key_is_a_number, "key= is text or each_call"),
    (key_of_a_list, r"write \{names\|sha256\}"),
    (key_of_a_float, r"write \{amount\|sha256\}"),
    (replay_for_on_a_read, "@read has no option 'replay_for': only a @write is replayed"),
    (key_on_a_read, "@read has no option 'key': .*make it a @write"),
    (cache_on_a_write, "@write has no option 'cache_s': a write is never answered from a cache"),
    (misspelt_option, "@read has no option 'scop': it takes scope, source"),
    (timeout_of_zero, "timeout_s= is a number of seconds from 0.001"),
    (timeout_of_true, "timeout_s= is a number of seconds"),
    (scope_that_is_no_text, "scope= is text, such as scope='orders:read'"),
    (replay_for_a_number, r"such as timedelta\(days=30\)"),
    (reserved_name, "one of the model's own tools; call it"),
    (unicode_name, "1 to 64 ASCII letters"),
    (no_function, "put the decorator directly above a def"),
    (generator, "return one value, such as a list"),
    (decimal_with_meta, "parameter 'amount': .* has no JSON schema .*; use str, int"),
    (opaque_parameter, "parameter 'what': Opaque has no JSON schema"),
    (opaque_result, "its result: Opaque has no JSON schema"),
    (recursive_parameter, "type Tree contains itself; use a flat type"),
    (default_of_another_type, "its default '3' does not fit int"),
    (type_that_cannot_be_found, "import it outside TYPE_CHECKING"),
    (
        rule_with_fewer_parameters,
        r"must take the tool's parameters: \(req: Request, order_id: str, a",
    ),
    (rule_with_other_type, r"\(req: Request, order_id: str, amount: int\)"),
    (rule_with_other_order, r"\(req: Request, order_id: str, amount: int\)"),
    (rule_that_takes_ctx, r"must take req: Request first: def over\(req: Request, ...\)"),
    (async_rule, "must be a plain def: a rule does no I/O"),
    (second_rule, "there is one already, 'over'"),
    (precondition_with_other_parameters, r"\(ctx: Ctx\[...\], order_id: str, amount: int\)"),
    (lookup_with_other_parameters, r"\(ctx: Ctx\[...\], order_id: str, amount: int\)"),
    (lookup_of_a_read, "takes no lookup: .*read again"),
    (precondition_of_a_read, "takes no precondition: check it inside"),
    (lookup_of_a_write_that_returns_nothing, "return what was done, such as its id"),
]


@pytest.mark.parametrize(
    ("declaration", "message"), REFUSED, ids=lambda each: str(getattr(each, "__name__", ""))
)
def test_import_time_refuses(declaration: Callable[[], None], message: str) -> None:
    with pytest.raises(DeclarationError, match=message):
        declaration()


def test_every_kind_of_write_has_its_effect_class() -> None:
    async def find(ctx: Ctx[None], order_id: str, amount: int) -> Refund | None: ...

    blind, replay, lookup = declare_write(), declare_write(replay_for=timedelta(1)), declare_write()
    lookup.lookup(find)
    assert [each.spec().effect for each in (blind, replay, lookup)] == ["blind", "replay", "lookup"]
    assert replay.spec().replay_for_s == 86_400.0


def test_each_call_has_no_template() -> None:
    spec = declare_write(each_call).spec()
    assert (spec.key, spec.is_each_call) == (None, True)


async def test_a_tool_stays_callable() -> None:
    tool = declare_write()
    assert isinstance(tool, Tool)
    assert await cast("Any", tool)(Ctx(None, "key-1"), "ORD-1", amount=5) == Refund("ORD-1/5/key-1")


def test_context_may_be_known_to_the_type_checker_only() -> None:
    @read
    async def get(ctx: "Ctx[OnlyForTypes]", order_id: str) -> str:  # noqa: F821  # pyright: ignore[reportUndefinedVariable, reportUnknownParameterType]
        """Get."""
        return order_id

    assert list(get.parameters.names) == ["order_id"]


def test_source_defaults_to_the_tool() -> None:
    assert declare_write().spec().source == "issue_refund"
    assert declare_write(source="refunds-service").spec().source == "refunds-service"


def test_recorded_results_decode_to_the_return_type() -> None:
    tool = declare_write()
    assert tool.decode_result({"id": "r-1"}) == Refund("r-1")
    with pytest.raises(ValueError, match="a recorded result of write tool 'issue_refund'"):
        tool.decode_result({"number": 1})


@pytest.mark.parametrize(
    ("ruling", "message"),
    [
        (lambda: ask("", "why"), "needs a group such as"),
        (lambda: ask("a b", "why"), "needs a group such as"),
        (lambda: ask("lead", " "), "ask() needs a reason"),
        (lambda: ask("lead", "why", size=-1), "whole number from 0 to"),
        (lambda: ask("lead", "why", size=cast("int", 1.5)), "whole number from 0 to"),
        (lambda: ask("lead", "why", size=True), "whole number from 0 to"),
        (lambda: ask("lead", "why", ttl=timedelta()), "positive timedelta"),
        (lambda: deny(""), "deny() needs a reason"),
        (lambda: Unmet(""), "Unmet needs a reason"),
    ],
)
def test_rulings_refuse_what_could_not_be_acted_on(
    ruling: Callable[[], object], message: str
) -> None:
    with pytest.raises(DeclarationError) as raised:
        ruling()
    assert message in raised.value.message
