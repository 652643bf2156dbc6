"""Every fault point that is declared is passed by one run with an approval and a lost answer."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import msgspec

import actors
from messages import subjects
from runtime.faults import POINTS, armed
from tests.flow.desk import LOST, Desk, agent, look, pay, post
from tests.flow.stage import PATIENCE_S, RUN, TENANT, Stage, yes
from treadle import Draft, Unmet
from treadle.testing import call, finish

STORY = (call(look, key="a"), call(pay, key="a", amount=2000), call(post, key="a"), finish("done"))


async def test_every_declared_point_is_reached() -> None:
    desk = agent()

    @desk.done
    def posted(draft: Draft[Any]) -> Unmet | None:
        return None if draft.results(post) else Unmet("not posted")

    on = Stage(desk, script=list(STORY), deps=Desk(faults={"post afterwards": [LOST]}))
    reached: set[str] = set()
    with armed(reached.add):
        async with on.life() as life:
            await life.bus.publish_durable(
                subjects.task(TENANT, "submitter", desk.name),
                msgspec.json.encode({"goal": "go", "run_id": RUN}),
                message_id="1",
            )
            with anyio.move_on_after(PATIENCE_S):
                while not reached.issuperset(POINTS):
                    changed = on.ledger.changed
                    await on.decide(yes)
                    await changed.wait()
    assert set(POINTS) - reached == set()


def test_every_declared_point_stands_in_the_code_of_its_role() -> None:
    """What a type checker refuses too: a name that is not declared, or not written out."""
    standing: dict[str, set[str]] = {}
    for file, named in _calls(Path(actors.__file__).parent):
        standing.setdefault(named, set()).add(file.parts[0].removesuffix(".py"))
    assert standing == {point: {point.partition(".")[0]} for point in POINTS}


def _calls(root: Path) -> Iterator[tuple[Path, str]]:
    for file in root.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            match node:
                case ast.Call(func=ast.Name(id="fault"), args=[ast.Constant(value=str(point))]):
                    yield file.relative_to(root), point
                case _:
                    continue
