"""Name -> tool, for one app.

Executors subscribe per tool name and the ledger records names, so one name means one tool in the
whole app; several agents may share it.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from messages.errors import DeclarationError, NotFound
from runtime.tools.tool import Tool


class Registry(Mapping[str, Tool[..., Any]]):
    """The tools of an app by name, in the order in which agents name them."""

    def __init__(self, tools: Iterable[Tool[..., Any]]) -> None:
        """Collect tools; the same one may come several times.

        Raises:
            DeclarationError: Two different tools have one name.
        """
        self._tools: dict[str, Tool[..., Any]] = {}
        for tool in tools:
            known = self._tools.setdefault(tool.name, tool)
            if known is not tool:
                message = (
                    f"two tools are named {tool.name!r}, in {known.__module__} and "
                    f"{tool.__module__}: rename one, a name means one tool in the whole app"
                )
                raise DeclarationError(message)

    def __getitem__(self, name: str) -> Tool[..., Any]:
        return self._tools[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tools)

    def __len__(self) -> int:
        return len(self._tools)

    def tool(self, name: str) -> Tool[..., Any]:
        """The tool of that name.

        Raises:
            NotFound: There is none.
        """
        if name not in self._tools:
            kind = "tool"
            raise NotFound(kind, name, hint=f"there are: {', '.join(self._tools) or 'none'}")
        return self._tools[name]

    @property
    def scopes(self) -> tuple[str, ...]:
        """Every scope that a tool names, sorted."""
        return tuple(sorted({tool.options.scope for tool in self._tools.values()} - {""}))
