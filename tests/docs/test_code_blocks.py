"""Everything the pages show as code works when a reader pastes it, from top to bottom."""

import json
import tomllib
from pathlib import Path

import pytest

from tests.docs.blocks import (
    PARSED,
    RUN,
    SAVED,
    SHOWN,
    Block,
    Terminal,
    blocks_of,
    exchanges,
    first_difference,
    terminal,
)

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
BLOCKS = {page.relative_to(ROOT).as_posix(): blocks_of(page.read_text("utf-8")) for page in PAGES}
RUNNABLE = [name for name, blocks in BLOCKS.items() if any(b.language in RUN for b in blocks)]


@pytest.mark.parametrize("name", BLOCKS)
def test_every_block_says_what_it_is(name: str) -> None:
    for block in BLOCKS[name]:
        assert block.language in RUN | PARSED | SHOWN, f"{name}:{block.line}: {block.language!r}"
        assert not block.title or block.language in SAVED, f"{name}:{block.line}"


@pytest.mark.parametrize("name", BLOCKS)
def test_data_parses(name: str) -> None:
    for block in BLOCKS[name]:
        match block.language:
            case "json":
                _ = json.loads(block.text)
            case "toml":
                _ = tomllib.loads(block.text)
            case _:
                pass


@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", RUNNABLE)
def test_code_runs_as_shown(name: str, tmp_path: Path) -> None:
    with terminal(tmp_path) as shell:
        for block in BLOCKS[name]:
            try:
                _run(shell, block)
            except AssertionError as error:
                error.add_note(f"in {name}, the block of line {block.line}")
                raise


def _run(shell: Terminal, block: Block) -> None:
    match block.language:
        case "python":
            file = block.title or f"block_{block.line}.py"
            shell.save(file, block.text)
            run = "-m pytest -q" if file.startswith("test_") else ""
            _ = shell.run(f"python {run} {file}")
        case "toml" if block.title:
            shell.save(block.title, block.text)
        case "sh":
            _ = shell.run(block.text)
        case "console":
            for command, shown in exchanges(block.text):
                output = shell.run(command)
                differs = first_difference(output, shown)
                assert not differs, f"$ {command}\n{output}\n\nthe page shows: {differs}"
        case _:
            pass
