"""A task group that does not change what its body raises."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
from anyio.abc import TaskGroup


@asynccontextmanager
async def lone_errors() -> AsyncGenerator[TaskGroup]:
    """A task group, cancelled on leaving, that lets a single error out bare and not in a group."""
    try:
        async with anyio.create_task_group() as tasks:
            try:
                yield tasks
            finally:
                tasks.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        lone, *others = group.exceptions
        if others:
            raise
    else:
        return
    raise lone
