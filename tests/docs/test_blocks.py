"""The reader of fenced code, on pages that cannot be in the documentation."""

from pathlib import Path

import pytest

from tests.docs.blocks import blocks_of, exchanges, first_difference, is_like, terminal


def test_blocks_are_found_with_their_names_and_lines() -> None:
    page = "# T\n\n```python title=a.py\nx = 1\n```\n\n- item\n\n  ```sh\n  ls\n  ```\n"
    first, second = blocks_of(page)
    assert (first.line, first.language, first.title, first.text) == (3, "python", "a.py", "x = 1\n")
    assert (second.line, second.language, second.text) == (9, "sh", "ls\n")


def test_a_fence_inside_a_longer_one_is_text() -> None:
    [block] = blocks_of("````text\n```sh\nls\n```\n````\n")
    assert block.text == "```sh\nls\n```\n"


def test_a_fence_that_never_ends_is_refused() -> None:
    with pytest.raises(ValueError, match="line 2"):
        _ = blocks_of("# T\n```sh\nls\n")


def test_a_console_block_is_commands_and_their_output() -> None:
    assert exchanges("$ a\n1\n2\n$ b\n$ c\n3\n") == [("a", "1\n2"), ("b", ""), ("c", "3")]


@pytest.mark.parametrize(
    ("output", "shown", "is_so"),
    [
        ("a\nb\n", "a\nb", True),
        ("a\nb\n", "a", False),
        ("a\nb\nc\n", "a\n...\nc", True),
        ("a\nc\n", "a\n...\nc", True),
        ("a\nb\n", "a\n...", True),
        ("a\nb\n", "a\n...\nc", False),
        ("run-77 done in 3 s\n", "run-... done in ... s", True),
        ("run-77\nx done\n", "run-... done", False),
        ("a (b) [c]*\n", "a (b) [c]*", True),
        ("", "", True),
        ("a\n", "", False),
    ],
)
def test_three_dots_stand_for_anything(output: str, shown: str, is_so: object) -> None:
    assert is_like(output, shown) is is_so


def test_a_difference_is_named() -> None:
    assert first_difference("a\nb\n", "a\n...") == ""
    assert first_difference("a\nb\nc\n", "a\nx\nc") == "x"
    assert first_difference("a\nb\n", "a") == "(more than is shown)"


def test_a_shell_keeps_its_state_and_stops_at_a_failure(tmp_path: Path) -> None:
    with terminal(tmp_path) as shell:
        _ = shell.run("x=7")
        assert shell.run("echo $x; pwd >&2") == f"7\n{tmp_path}\n\n"
        with pytest.raises(AssertionError, match=r"ended with 1:\nfalse\necho no"):
            _ = shell.run("false\necho no")


def test_a_file_is_saved_where_the_shell_is(tmp_path: Path) -> None:
    with terminal(tmp_path) as shell:
        _ = shell.run("mkdir app; cd app")
        shell.save("a.txt", "1\n")
    assert (tmp_path / "app" / "a.txt").read_text() == "1\n"
