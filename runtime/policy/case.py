"""What the authoriser decides about: a request, and what the ledger says of its run."""

from collections.abc import Mapping
from typing import Any

import msgspec

from messages.authority import Authorise
from messages.base import Timestamp
from messages.errors import NotFound
from messages.events import RunCreated
from messages.ledger import ApprovalRow
from runtime.agent import Agent
from runtime.tools.tool import Tool


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One Authorise and what the ledger says about it.

    Attributes:
        settling: Ordinals whose effect may exist already.
        now: The ledger's clock, never the request's word.
    """

    request: Authorise
    agent: Agent[Any]
    created: RunCreated
    approvals: Mapping[int, ApprovalRow]
    settling: frozenset[int]
    now: Timestamp

    def tool(self, name: str) -> Tool[..., Any]:
        """The agent's tool of that name.

        Raises:
            NotFound: It has none.
        """
        for tool in self.agent.tools:
            if tool.name == name:
                return tool
        raise NotFound("tool", name)
