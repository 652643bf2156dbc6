"""answer: what a run asked a person, answered."""

from typing import Any, Final, TextIO

import click

from messages.errors import Conflict, UsageError
from treadle.cli import parse, session
from treadle.cli.format import Row, as_mapping, emit, note, plain, short_json
from treadle.cli.options import Options, command, current_options

_TEXT: Final = frozenset({None, "string"})
"""Types of a question's schema that plain text answers; any other answer is JSON."""


@command("answer", effect="rw")
@click.argument("run_id", metavar="RUN")
@click.argument("text", required=False)
@click.option(
    "-f",
    "--file",
    "file",
    type=click.File("r", encoding="utf-8"),
    metavar="FILE",
    help="Read the answer from FILE; - is stdin.",
)
@click.option("--json", "is_json", is_flag=True, help="The answer is JSON, whatever was asked.")
def answer(*, run_id: str, text: str | None, file: TextIO | None, is_json: bool) -> None:
    """Answer the question of RUN; a run that ended NEEDS_INPUT goes on as a new one.

    Prints the id of the run that goes on. A question with a schema of another type than text is
    answered in JSON. Without TEXT the question is shown and, at a terminal, you are asked.
    """
    if text is not None and file is not None:
        raise click.UsageError("give TEXT or -f FILE, not both")
    options = current_options()
    given = text if file is None else file.read()

    async def work() -> session.Reply:
        async with session.connect(options, session.APPROVER) as api:
            question = _question(await api.show(run_id))
            words = given if given is not None else _asked(question, options)
            value = _value(words, question, is_json=is_json)
            return await api.answer(run_id, value, question_id=question["id"])

    reply = session.run_async(work)
    emit(options, reply, rows=[reply], name="run_id", text=lambda: _text(reply, run_id))


def _question(run: Row) -> Row:
    """What the run asks.

    Raises:
        Conflict: it asks nothing.
    """
    question = as_mapping(run.get("question"))
    if not question:
        run_id, status = run["run_id"], run["status"]
        raise Conflict(f"run {run_id} asks nothing; it is {status}", why="NOT_WAITING")
    return question


def _asked(question: Row, options: Options) -> str:
    """The answer of whoever sits at the terminal.

    Raises:
        UsageError: nobody does.
    """
    note(options, f"question  {plain(question['text'])}")
    if question.get("schema"):
        note(options, f"schema    {plain(short_json(question['schema']))}")
    if not options.may_ask:
        raise UsageError("there is no answer", hint="treadle answer RUN TEXT, or -f FILE")
    answered: str = click.prompt("answer", err=True)
    return answered


def _value(words: str, question: Row, *, is_json: bool) -> Any:
    """The answer as the question wants it.

    Raises:
        UsageError: it should be JSON and is none.
    """
    kind = as_mapping(question.get("schema")).get("type")
    if not is_json and (not isinstance(kind, str) or kind in _TEXT):
        return words.removesuffix("\n")
    try:
        return parse.json_value(words)
    except ValueError as error:
        wanted = f"an answer of type {plain(kind)}" if kind else "the answer"
        raise UsageError(f"{wanted} is written as JSON: {error}") from error


def _text(reply: Row, run_id: str) -> str:
    if reply["run_id"] == run_id:
        return f"answered {plain(run_id)}; the run goes on"
    existing = "  existing" if reply.get("existing") else ""
    return f"{plain(reply['run_id'])}{existing}  goes on from {plain(run_id)}"
