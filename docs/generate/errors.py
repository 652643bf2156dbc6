"""The error tree with codes, exit codes and whether trying again can help."""

from collections.abc import Iterator
from typing import TypeVar

from docs.generate.markdown import BY_HAND, codes, sentence, yes
from messages import errors
from messages.errors import ToolError, TreadleError
from treadle.client.failures import CONFLICTS

ErrorT = TypeVar("ErrorT", bound=Exception)


def errors_page() -> str:
    """The error tree with codes, exit codes and whether trying again can help."""
    lines = [
        "# Errors",
        "",
        BY_HAND,
        "",
        (
            "Every refusal carries a stable `code`. With `-o json` the command line prints"
            ' `{"v":1,"error":{"code","message","hint","retryable"}}` on stderr; the API answers'
            " the same object; `exit` is the exit code of a command that ends with the error."
        ),
        "",
        "| error | code | exit | retryable | meaning |",
        "| --- | --- | --- | --- | --- |",
    ]
    lines += [_error_row(cls, depth) for cls, depth in _tree(TreadleError)]
    lines += [
        "",
        (
            "Other exit codes: 0 done; 5 the awaited run ended other than SUCCEEDED; 6 it waits"
            " for a person; 124 timeout; 130 interrupted."
        ),
        "",
        "## Conflicts",
        "",
        "A conflict travels under the word that says why it is one; each ends a command with 7: "
        + codes(sorted(CONFLICTS))
        + ".",
        "",
        "## Raised by tools",
        "",
        (
            "What a tool raises says how its failure is treated. From a write, only the first"
            " three, raised by the tool itself, say that nothing happened; every other"
            " exception, a deadline and a dead process mean that the outcome is unknown."
        ),
        "",
        "| error | code | meaning |",
        "| --- | --- | --- |",
    ]
    lines += [
        f"| `{cls.__name__}` | `{cls.code}` | {sentence(cls)} |"
        for cls, depth in _tree(ToolError)
        if depth
    ]
    return "\n".join([*lines, ""])


def _error_row(cls: type[TreadleError], depth: int) -> str:
    name = f"{'&nbsp;&nbsp;' * depth}`{cls.__name__}`"
    cells = (name, f"`{cls.code}`", str(cls.exit_code), yes(cls.retryable), sentence(cls))
    return f"| {' | '.join(cells)} |"


def _tree(root: type[ErrorT], depth: int = 0) -> Iterator[tuple[type[ErrorT], int]]:
    yield root, depth
    for cls in vars(errors).values():
        if isinstance(cls, type) and root in cls.__bases__:
            yield from _tree(cls, depth + 1)
