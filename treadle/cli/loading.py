"""Loading a user's app by ``MODULE:APP``, and saying what is wrong with it.

Everything that an author can do wrong becomes a ``Finding`` with a place and a hint; nothing here
raises for a broken app.
"""

import importlib
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import click

from messages.errors import TreadleError
from treadle.cli.findings import Finding

if TYPE_CHECKING:
    from runtime.agent import App


def split(spec: str) -> tuple[str, str]:
    """``MODULE:APP`` in its two parts.

    Raises:
        click.UsageError: it is not of that form.
    """
    module, colon, name = spec.partition(":")
    if not colon or not all(part.isidentifier() for part in [*module.split("."), name]):
        raise click.UsageError(f"{spec!r} is not MODULE:APP, such as app:app")
    return module, name


def find_module(name: str) -> ModuleType | Finding:
    """Import a module; the working directory is looked in first, as ``python -m`` does."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as error:  # noqa: BLE001 -- a user's module may raise anything
        return _import_finding(name, error)


def find_app(module: ModuleType, name: str) -> "App | Finding":
    """The app in a module, or why there is none of that name."""
    from runtime.agent import App  # noqa: PLC0415 -- msgspec is imported by who needs it

    found: object = getattr(module, name, None)
    if isinstance(found, App):
        return found
    apps = [known for known, value in vars(module).items() if isinstance(value, App)]
    hint = f"did you mean {module.__name__}:{apps[0]}?" if apps else "write app = App(agent)"
    where = module.__file__ or module.__name__
    if found is None:
        message = f"there is no {name!r} in this module"
        return Finding(code="NO_SUCH_APP", where=where, message=message, hint=hint)
    message = f"{name!r} is of type {type(found).__name__}, not an App"
    return Finding(code="NOT_AN_APP", where=where, message=message, hint=hint)


def load_for_review(spec: str | None, config: Path | None) -> "tuple[App | None, list[Finding]]":
    """The app, where it loads, and all that is wrong with it and its files.

    Args:
        spec: MODULE:APP; None: only the files that apply here.
        config: the file named with ``--config``.
    """
    from treadle.cli.review import review  # noqa: PLC0415 -- imports what an app imports

    if spec is None:
        return None, review(None, None, config)
    module_name, name = split(spec)
    module = find_module(module_name)
    if isinstance(module, Finding):
        return None, [module]
    app = find_app(module, name)
    folder = folder_of(module)
    if isinstance(app, Finding):
        return None, [app, *review(None, folder, config)]
    return app, review(app, folder, config)


def folder_of(module: ModuleType) -> Path | None:
    """Where the module lies: its policy.toml and treadle.toml are read below the user's own."""
    return Path(module.__file__).parent if module.__file__ else None


def _import_finding(name: str, error: BaseException) -> Finding:
    match error:
        case ModuleNotFoundError() if error.name:
            is_asked_for = f"{name}.".startswith(f"{error.name}.")
            where = name if is_asked_for else _place(error) or name
            here = "run it from the folder that holds the module, or install its package"
            hint = here if is_asked_for else "install the package that holds it"
            message = f"there is no module {error.name!r}"
            return Finding(code="NO_SUCH_MODULE", where=where, message=message, hint=hint)
        case SyntaxError():
            where = f"{error.filename}:{error.lineno}"
            return Finding(code="SYNTAX", where=where, message=error.msg)
        case TreadleError():
            where = _place(error) or name
            return Finding(code=error.code, where=where, message=error.message, hint=error.hint)
        case _:
            message = f"{type(error).__name__}: {error}".rstrip(": ")
            return Finding(code="IMPORT", where=_place(error) or name, message=message)


def _place(error: BaseException) -> str:
    """The innermost line outside Treadle and the import machinery: the author's own."""
    ours = tuple(str(Path(__file__).parents[2] / part) for part in ("treadle/cli", "runtime"))
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if not frame.filename.startswith((*ours, "<frozen")) and "importlib" not in frame.filename:
            return f"{frame.filename}:{frame.lineno}"
    return ""
