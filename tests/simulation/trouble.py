"""When processes die, freeze, drain or run wrong clocks, and when the broker goes away."""

import random

from messages.ledger import Take
from tests.simulation.options import HEAL_S, LAYOUTS
from tests.simulation.world import World

_TIMES = ((0, 0), (1, 2), (2, 5))
"""How often in one schedule, by level: from, to."""
_STEPS = 80
"""A fault strikes before one of the next so many steps of its process, whatever they are."""


def arrange(world: World) -> None:
    """Draw all that will go wrong on purpose, before anything begins."""
    options = world.options
    draw = options.chance("trouble")
    names = [name for name, _ in LAYOUTS[options.layout]]
    for fault in ("kill", "freeze", "drain"):
        least, most = _TIMES[options.level(fault)]
        for _ in range(draw.randint(least, most)):
            _lay(world, draw, fault, draw.choice(names))
    _arm_deadly(world, draw)
    if options.level("skew"):
        _set_clocks(world, draw, names)
    least, most = _TIMES[options.level("broker")]
    for _ in range(draw.randint(least, most)):
        _break_broker(world, draw)


def _lay(world: World, draw: random.Random, fault: str, name: str) -> None:
    at_s, steps = draw.uniform(0.2, HEAL_S - 2.0), draw.randint(1, _STEPS)
    back_s, for_s = draw.uniform(0.1, 3.0), draw.choice((0.3, 1.0, 2.5, 5.0, 9.0))

    def strike() -> None:
        match fault:
            case "kill":
                world.kill(name, back_s)
            case "freeze":
                world.freeze(name, for_s)
            case _:
                world.drain(name)

    def light() -> None:
        process = world.living.get(name)
        if process is not None and process.is_alive:
            process.fuse, process.burnt = steps, strike

    world.machine.outside(at_s, light)


def _set_clocks(world: World, draw: random.Random, names: list[str]) -> None:
    most_s = 0.8 if world.options.level("skew") == 1 else 5.0
    for name in names:
        at_s, off_s = draw.uniform(0.0, HEAL_S), draw.uniform(-most_s, most_s)
        world.machine.outside(at_s, world.set_clock, name, off_s)
    # Set back while runs are driven; set forward it would count for W, which is a known limit.
    start_s, back_s = draw.uniform(-most_s, most_s), draw.uniform(0.0, most_s)
    world.set_clock("ledger", start_s)
    world.machine.outside(draw.uniform(1.0, HEAL_S), world.set_clock, "ledger", start_s - back_s)


def _break_broker(world: World, draw: random.Random) -> None:
    at_s, for_s = draw.uniform(0.5, HEAL_S - 4.0), draw.uniform(0.2, 3.0)
    is_wiped = draw.random() < 0.5
    world.machine.outside(at_s, world.lose_broker)
    world.machine.outside(at_s + for_s, world.find_broker, is_wiped)


def _arm_deadly(world: World, draw: random.Random) -> None:
    """Some runs kill whoever drives them, each time, for as long as they are driven."""
    deadly = {job.name for job in world.options.jobs if job.kind == "deadly"}
    if not deadly:
        return

    def took(op: Take) -> None:
        owner = next(p for p in world.living.values() if f"-{p.name}x{p.life}n" in op.process)
        if op.run_id in deadly:
            world.judge.counts["killed_by_a_run"] += 1
            world.machine.outside(draw.uniform(0.0, 0.1), world.kill, owner.name, 0.3)

    world.judge.took = took
