"""What a user imports: agents, tools, rulings, errors, the client.

Names are looked up when they are first used, so that ``import treadle`` costs nothing and a tool
module does not pull in the bus or a provider.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from messages.errors import Correctable, Transient, Unknown, Unrecoverable
    from runtime.agent import Agent, App, Budget, Progress
    from runtime.tools.context import Ctx, Request
    from runtime.tools.declare import each_call, read, write
    from runtime.tools.draft import Draft
    from runtime.tools.ruling import Ruling, Unmet, allow, ask, deny
    from treadle.client import Client

__all__ = [
    "Agent",
    "App",
    "Budget",
    "Client",
    "Correctable",
    "Ctx",
    "Draft",
    "Progress",
    "Request",
    "Ruling",
    "Transient",
    "Unknown",
    "Unmet",
    "Unrecoverable",
    "allow",
    "ask",
    "deny",
    "each_call",
    "read",
    "write",
]

_HOMES = {
    "messages.errors": ("Correctable", "Transient", "Unknown", "Unrecoverable"),
    "runtime.agent": ("Agent", "App", "Budget", "Progress"),
    "runtime.tools.context": ("Ctx", "Request"),
    "runtime.tools.declare": ("each_call", "read", "write"),
    "runtime.tools.draft": ("Draft",),
    "runtime.tools.ruling": ("Ruling", "Unmet", "allow", "ask", "deny"),
    "treadle.client": ("Client",),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    """Import a public name on first use."""
    if name not in _HOME_OF:
        message = f"module 'treadle' has no attribute {name!r}"
        raise AttributeError(message)
    value: object = getattr(import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
