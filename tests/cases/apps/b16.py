"""Case B16: a lookup that always finds nothing, under the case's thresholds.

``repeat_limit`` 3: the third equal call is warned of, the fourth refused, the fifth the end.
``stall_limit`` 5: the model is told one step before it is reached.
"""

from tests.cases.apps import downstream
from tests.cases.apps.script import case_of
from treadle import Agent, App, Budget, Ctx, Progress, read


@read(source="shelf")
async def lookup(ctx: Ctx[None], key: str, label: str = "") -> list[str]:
    """Look up the value of a key."""
    downstream.note(downstream.FILE, kind="lookup", key=key)
    return []


SETUP = case_of("b16")["setup"]
LIMITS = SETUP["progress"]
agent = Agent(
    "b16",
    model="m",
    instructions="Look things up.",
    tools=[lookup],
    budget=Budget(max_steps=SETUP["budget"]["steps"]),
    progress=Progress(
        warn_at=LIMITS["repeat_limit"],
        stop_at=LIMITS["repeat_limit"] + 2,
        stall_at=LIMITS["stall_limit"] - 1,
    ),
)
app = App(agent)
