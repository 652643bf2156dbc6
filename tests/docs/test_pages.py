"""Pages that are facts of the code are up to date, links lead somewhere, decisions are complete."""

import re
from pathlib import Path

import pytest

from docs import generate

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")])
DECISIONS = sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md"))
_LINK = re.compile(r"(?<!!)\[[^\]]+\]\((?P<target>[^)\s]+)\)", re.DOTALL)
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """The anchors of a page, as Markdown viewers make them from its headings."""
    titles = _HEADING.findall(page.read_text("utf-8"))
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_generated_pages_say_what_the_code_says() -> None:
    assert not generate.stale(), "run make docs"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_within_the_repository_lead_somewhere(page: Path) -> None:
    for target in _LINK.findall(page.read_text("utf-8")):
        path, _, anchor = target.partition("#")
        if path.startswith(("https://", "http://")):
            continue
        place = (page.parent / path).resolve() if path else page
        assert place.exists(), f"{page.name} links to {target}"
        assert not anchor or anchor in anchors(place), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", DECISIONS, ids=lambda page: page.name)
def test_a_decision_has_its_four_parts_and_is_listed(page: Path) -> None:
    text = page.read_text("utf-8")
    assert re.match(r"# \d{4} \S.*\n\nDate: \d{4}-\d\d-\d\d\n", text), page.name
    for part in ("## Context", "## Decision", "## Consequence"):
        assert part in text, f"{page.name} has no {part}"
    assert f"({page.name})" in (page.parent / "README.md").read_text("utf-8")


def test_the_readme_is_what_a_package_index_shows() -> None:
    import tomllib  # noqa: PLC0415 -- only here

    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["readme"] == "README.md"
