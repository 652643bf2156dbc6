"""Case B33: a tool that returns more than a window, a journal entry or a bus message may hold."""

from tests.cases.apps.script import case_of
from treadle import Agent, App, Budget, Ctx, read
from treadle.memory import read_result

WINDOW = case_of("b33")["setup"]["context"]["window_tokens"]
FACES = "😀" * 1_700_000
WORDS = ("ab " * 66_667)[:200_000]


@read(source="shelf")
async def dump(ctx: Ctx[None], n: int) -> str:
    """Dump everything."""
    return FACES if n == 1 else WORDS


agent = Agent(
    "b33",
    model="m",
    instructions="Sum up what is there.",
    tools=[dump, read_result],
    window_tokens=WINDOW,
    budget=Budget(max_tokens=1_000_000),
)
app = App(agent)
