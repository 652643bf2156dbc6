"""Who may publish and hear what, as the server enforces it (CONTRACT.md section 4)."""

from collections.abc import AsyncGenerator, Iterable
from contextlib import AsyncExitStack
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from nats.aio.client import Client
from nats.js.errors import NoStreamResponseError

from messages import subjects
from messages.base import Message, Request
from messages.codec import encode
from messages.errors import NoResponders, NotAllowed, TreadleError
from messages.ledger import Done, Renew
from runtime.bus import client
from runtime.bus.bus import WireBus
from runtime.bus.permissions import DEFAULT_PEOPLE, Person, all_rights
from runtime.bus.port import Work
from runtime.bus.server import EmbeddedServer
from tests.nats_fixtures import QUICK

pytestmark = pytest.mark.anyio

PEOPLE = (*DEFAULT_PEOPLE, Person(kind="submitter", principal="bob", tenant="acme"))

OUTSIDE = ("submitter", "approver", "operator", "acme+bob")
USERS = (
    *OUTSIDE,
    *("daemon", "gateway", "orchestrator", "planner", "executor", "checkpointer", "notifier"),
)

PUBLISH = {
    "treadle.tasks.default.submitter.refund": {"daemon", "gateway", "submitter"},
    "treadle.tasks.default.operator.refund": {"daemon", "gateway", "operator"},
    "treadle.tasks.default.approver.refund": {"daemon", "gateway"},
    "treadle.tasks.acme.bob.refund": {"daemon", "gateway", "acme+bob"},
    "treadle.api.default.submitter.show": {"submitter"},
    "treadle.api.default.approver.approve": {"approver"},
    "treadle.api.default.operator.cancel": {"operator"},
    "treadle.api.acme.bob.show": {"acme+bob"},
    "treadle.rpc.checkpointer.append": set(USERS) - {*OUTSIDE, "checkpointer"},
    "treadle.rpc.executor.issue_refund.execute": {"daemon", "gateway", "orchestrator"},
    "treadle.rpc.planner.decide": {"daemon", "orchestrator"},
    "treadle.rpc.authoriser.authorise": {"daemon", "orchestrator"},
    "treadle.ctl.executor": {"daemon", "gateway", "orchestrator"},
    "treadle.events.default.run.decided": {"daemon", "orchestrator"},
    "treadle.results.default.run": {"daemon", "orchestrator"},
    "treadle.wakes.default.run": {"daemon", "gateway", "orchestrator", "checkpointer"},
    "treadle.replies.default.submitter.x": {"daemon", "gateway"},
    "treadle.dead.default.tasks.1": {"daemon", "gateway", "orchestrator"},
    "treadle.approvals.default.apr-1.requested": {"daemon", "gateway", "orchestrator"},
    "_INBOX_daemon.conn.1.1": {"daemon"},
    "_INBOX_submitter.conn.1.1": {"daemon"},
    "_INBOX.anybody": set[str](),
    "$JS.API.STREAM.CREATE.TREADLE_TASKS": {"daemon", "gateway"},
    "$JS.API.STREAM.DELETE.TREADLE_TASKS": set[str](),
    "$JS.API.STREAM.PURGE.TREADLE_TASKS": set[str](),
    "$JS.API.STREAM.MSG.GET.TREADLE_RESULTS": set[str](),
    "$JS.API.STREAM.NAMES": set[str](),
    "$JS.API.CONSUMER.MSG.NEXT.TREADLE_TASKS.gateway": {"daemon", "gateway"},
    "$JS.ACK.TREADLE_TASKS.gateway.1.1.1.1.1": {"daemon", "gateway"},
    "$JS.API.DIRECT.GET.TREADLE_RESULTS.treadle.results.default.run": {
        "daemon",
        "gateway",
        "orchestrator",
        "submitter",
        "operator",
    },
    "$JS.API.DIRECT.GET.TREADLE_RESULTS.treadle.results.acme.run": {
        "daemon",
        "gateway",
        "orchestrator",
        "acme+bob",
    },
    "$JS.API.DIRECT.GET.TREADLE_RESULTS": set[str](),
    "$JS.API.DIRECT.GET.TREADLE_DEAD": {"daemon", "gateway"},
    "$JS.API.STREAM.MSG.DELETE.TREADLE_DEAD": {"daemon", "gateway"},
    "$JS.API.STREAM.MSG.DELETE.TREADLE_RESULTS": set[str](),
    "$JS.API.STREAM.MSG.DELETE.TREADLE_TASKS": set[str](),
    "$SRV.PING": {"daemon", "gateway", "operator"},
    "$SYS.REQ.SERVER.PING": set[str](),
    "anything.else": set[str](),
}
SUBSCRIBE = {
    ("treadle.>", ""): {"daemon"},
    (">", ""): set[str](),
    ("treadle.tasks.>", ""): {"daemon"},
    ("treadle.results.default.*", ""): {"daemon", "submitter", "operator"},
    ("treadle.results.*.*", ""): {"daemon"},
    ("treadle.results.acme.*", ""): {"daemon", "acme+bob"},
    ("treadle.events.default.>", ""): {"daemon", "submitter", "operator"},
    ("treadle.replies.default.submitter.>", ""): {"daemon", "submitter"},
    ("treadle.approvals.default.>", ""): {"daemon", "approver", "operator"},
    ("treadle.approvals.>", "notifier"): {"daemon", "notifier"},
    ("treadle.questions.default.>", ""): {"daemon", "approver", "operator"},
    ("treadle.api.>", "gateway"): {"daemon", "gateway"},
    ("treadle.api.>", ""): {"daemon"},
    ("treadle.wakes.>", "orchestrator"): {"daemon", "orchestrator"},
    ("treadle.rpc.checkpointer.*", "checkpointer"): {"daemon", "checkpointer"},
    ("treadle.rpc.checkpointer.*", ""): {"daemon"},
    ("treadle.rpc.checkpointer.*", "other"): set[str](),
    ("treadle.rpc.executor.issue_refund.*", "executor"): {"daemon", "executor"},
    ("treadle.rpc.executor.issue_refund.*", "planner"): set[str](),
    ("treadle.ctl.executor", ""): {"daemon", "executor"},
    ("_INBOX_daemon.>", ""): {"daemon"},
    ("_INBOX_submitter.>", ""): {"submitter"},
    ("_INBOX.>", ""): set[str](),
    ("$JS.EVENT.>", ""): set[str](),
}


async def done(_request: Request[object], _work: Work) -> Message:
    return Done(now=1.0)


@pytest.fixture
async def server(data_dir: Path) -> AsyncGenerator[EmbeddedServer]:
    async with EmbeddedServer(data_dir, people=PEOPLE) as running:
        yield running


def expected(cells: dict[str, set[str]], user: str) -> set[str]:
    return {subject for subject, users in cells.items() if user in users}


async def publishable(bus: WireBus, wanted: Iterable[str]) -> set[str]:
    denied: set[str] = set()
    bus.wire.watch(denied=denied.add)
    for subject in wanted:
        await bus.publish(subject, b"")
    await bus.wire.flush()
    return {subject for subject in wanted if subject.lower() not in denied}


async def hearable(bus: WireBus, wanted: Iterable[tuple[str, str]]) -> set[tuple[str, str]]:
    heard: set[tuple[str, str]] = set()
    for subject, queue in wanted:
        try:
            async with bus.subscribe(subject, queue=queue):
                heard.add((subject, queue))
        except NotAllowed:
            pass
    return heard


@pytest.mark.parametrize("user", USERS)
async def test_the_server_allows_exactly_the_matrix(server: EmbeddedServer, user: str) -> None:
    async with client.connect(server.url, server.users[user], pace=QUICK) as bus:
        assert await publishable(bus, PUBLISH) == expected(PUBLISH, user)
        wanted = {cell for cell, users in SUBSCRIBE.items() if user in users}
        assert await hearable(bus, SUBSCRIBE) == wanted


async def test_an_ask_without_the_right_is_refused_at_once_and_not_a_timeout(
    server: EmbeddedServer,
) -> None:
    async with client.connect(server.url, server.users["submitter"], pace=QUICK) as bus:
        with anyio.fail_after(1), pytest.raises(NotAllowed):
            await bus.ask(Renew(process="p", lease_s=1.0), deadline_s=30.0, silence_s=30.0)
        with anyio.fail_after(1), pytest.raises(NotAllowed):
            await bus.request("treadle.api.default.operator.cancel", b"{}", timeout_s=30.0)


async def test_a_role_in_its_own_process_serves_the_daemon(server: EmbeddedServer) -> None:
    async def slow(request: Request[object], work: Work) -> Message:
        work.beat("on it")
        await anyio.sleep(QUICK.heartbeat_s * 3)
        return await done(request, work)

    async with AsyncExitStack() as stack:
        role, daemon, planner = [
            await stack.enter_async_context(
                client.connect(server.url, server.users[user], pace=QUICK)
            )
            for user in ("checkpointer", "daemon", "planner")
        ]
        async with role.serve("checkpointer", slow):
            renew = Renew(process="p", lease_s=1.0)
            assert await daemon.ask(renew, silence_s=QUICK.heartbeat_s * 2.5) == Done(now=1.0)
            assert await planner.ask(renew) == Done(now=1.0)
        async with daemon.serve("checkpointer", done):
            assert await planner.ask(renew) == Done(now=1.0)


async def test_a_role_cannot_forge_a_reply(server: EmbeddedServer) -> None:
    async with (
        client.connect(server.url, server.users["daemon"], pace=QUICK) as daemon,
        client.connect(server.url, server.users["planner"], pace=QUICK) as planner,
    ):
        inbox = f"{daemon.wire.inbox}.1.99999999999999"
        async with daemon.subscribe(inbox) as heard:
            assert await publishable(planner, [inbox]) == set()
            await planner.publish(inbox, encode(Done(now=6.0)))
            await planner.wire.flush()
            await daemon.wire.flush()
            await anyio.lowlevel.checkpoint()
            with pytest.raises(anyio.WouldBlock):
                heard.receive_nowait()


async def test_a_plain_nats_client_submits_with_an_acknowledgement_and_reads_its_result(
    server: EmbeddedServer,
) -> None:
    who = server.users["submitter"]
    async with client.connect(server.url, server.users["daemon"], pace=QUICK) as daemon:
        await daemon.prepare_streams(["refund"])
        result = subjects.result("default", "run-1")
        await daemon.publish_durable(result, b"{}", message_id="1")
        plain = Client()
        await plain.connect(
            server.url, user=who.user, password=who.password, inbox_prefix=who.inbox_prefix
        )
        try:
            jetstream = plain.jetstream()  # pyright: ignore[reportUnknownMemberType] -- untyped options
            ack = await jetstream.publish("treadle.tasks.default.submitter.refund", b"{}")
            assert ack.stream == subjects.TASKS_STREAM
            with pytest.raises(NoStreamResponseError):
                await jetstream.publish("treadle.tasks.default.submitter.unknown", b"{}")
            last = await jetstream.get_last_msg(subjects.RESULTS_STREAM, result, direct=True)
            assert last.data == b"{}"
        finally:
            await plain.close()


async def test_an_unknown_agent_is_refused_at_the_publisher(server: EmbeddedServer) -> None:
    async with (
        client.connect(server.url, server.users["daemon"], pace=QUICK) as daemon,
        client.connect(server.url, server.users["submitter"], pace=QUICK) as submitter,
    ):
        await daemon.prepare_streams(["refund"])
        task = subjects.task("default", "submitter", "unknown")
        with pytest.raises(NoResponders):
            await submitter.publish_durable(task, b"{}", message_id="1")


async def test_tasks_of_an_agent_that_is_gone_are_kept_until_they_are_read(
    server: EmbeddedServer,
) -> None:
    async with (
        client.connect(server.url, server.users["daemon"], pace=QUICK) as daemon,
        client.connect(server.url, server.users["submitter"], pace=QUICK) as submitter,
    ):
        await daemon.prepare_streams(["old", "unused"])
        old = subjects.task("default", "submitter", "old")
        await submitter.publish_durable(old, b"{}", message_id="1")
        await daemon.prepare_streams(["new"])
        with pytest.raises(NoResponders):
            await submitter.publish_durable(
                subjects.task("default", "submitter", "unused"), b"{}", message_id="2"
            )
        async with daemon.consume(subjects.TASKS_STREAM, "gateway") as tasks:
            with anyio.fail_after(5):
                task = await tasks.receive()
            assert task.subject == old
            await task.ack()
        await daemon.prepare_streams(["new"])
        with pytest.raises(NoResponders):
            await submitter.publish_durable(old, b"{}", message_id="3")


def test_two_users_never_share_a_name() -> None:
    for principal in ("daemon", "planner"):
        with pytest.raises(TreadleError):
            all_rights([Person(kind="submitter", principal=principal)])
    with pytest.raises(TreadleError):
        all_rights([Person(kind="submitter", principal="a.b")])
