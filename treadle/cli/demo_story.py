"""What the demo tells: each iteration as it happens, the approval, and how it ended."""

import json
import sys
from pathlib import Path
from typing import cast

import anyio

from treadle.cli.demo_record import arguments_of
from treadle.cli.format import Row, call_text, clipped, count, plain, short_json, status_text
from treadle.cli.session import Reader

_WIDTH = 96
_FINDINGS = {
    True: "it is there",
    False: "it is NOT there",
    None: "it cannot be said whether it is there",
}


class Story:
    """Tells one run. Feed it every event in order."""

    def __init__(self, reader: Reader, place: Path, *, is_data: bool) -> None:
        """Args: reader: for results; place: the data; is_data: whether stdout is the story's."""
        self._reader = reader
        self._place = place
        self._stream = sys.stdout if is_data else sys.stderr
        self._tokens = 0
        self._step_tokens = 0
        self._keys: dict[tuple[int, int], str] = {}

    def say(self, text: str = "") -> None:
        """Print one line at once."""
        print(text, file=self._stream, flush=True)

    async def tell(self, event: Row) -> None:
        """Print what an event adds to the story, if anything."""
        match event["kind"]:
            case "decided":
                self._step_tokens = event.get("tokens", 0)
                self._tokens += self._step_tokens
            case "accepted":
                for call in event["calls"]:
                    self._keys[event["step"], call["ordinal"]] = call["key"] or ""
            case "observed":
                await self._tell_call(event)
                await self._tell_result(event)
            case "approval_requested":
                await self._tell_call(event)
                self.say(f"        needs {plain(event['group'])}: rule {plain(event['rule'])}")
                self.say(f"        {self._used(event)}, and suspended: no worker waits")
            case "reconciled":
                finding = f"{plain(event['finding'])} ({plain(event['how'])})"
                self.say(f"        outcome of {plain(event['key'])} settled: {finding}")
            case _:
                self._tell_turn(event)

    def _tell_turn(self, event: Row) -> None:
        match event["kind"]:
            case "approval_resolved":
                person = plain(event["person"])
                self.say(f"        {plain(event['decision'])} by {person}")
            case "completion_rejected" | "proposal_rejected":
                self.say(f"step {event['step']}  {event['kind']}: {plain(event['message'])}")
            case "step_lost":
                self.say(f"step {event['step']}  lost: {plain(event['why'])}")
            case "verified":
                finding = _FINDINGS[event["is_there"]]
                self.say(f"verify  {plain(event['key'])}: looked up once more, {finding}")
            case "finished":
                self.say(f"finish  proposed, and judged on the records: {plain(event['status'])}")
                self.say(f"        {self._used(event)}")
            case _:
                pass

    async def _tell_call(self, event: Row) -> None:
        call = (event["step"], event["ordinal"])
        arguments = await self._arguments(event["run_id"], call)
        self.say(f"step {plain(event['step'])}  {call_text(event.get('tool'), arguments, _WIDTH)}")
        if key := self._keys.get(call):
            self.say(f"        key {plain(key)}")

    async def _arguments(self, run_id: str, call: tuple[int, int]) -> Row:
        files = sorted([Path(file) async for file in anyio.Path(self._place).glob("*.db")])
        return (await arguments_of(files[0], run_id)).get(call, {}) if files else {}

    async def _tell_result(self, event: Row) -> None:
        run = await self._reader.show(event["run_id"], at=event["version"])
        evidence = _evidence(run, event.get("evidence_id"))
        if evidence:
            payload = evidence.get("payload", evidence.get("ref"))
            self.say(f"        → {clipped(plain(short_json(payload)), _WIDTH)}")
            origin = f"{plain(evidence['id'])} from {plain(evidence['source'])}"
            self.say(f"        {origin}, request {plain(evidence['request_id'])}")
        else:
            self.say(f"        {plain(event['outcome'])}: {plain(event.get('message', ''))}")
        self.say(f"        {self._used(event)}")

    def _used(self, event: Row) -> str:
        """Tokens are told once, with what the decision led to first."""
        told, self._step_tokens = self._step_tokens, 0
        tokens = f"{count(told)} tokens, {count(self._tokens)} in all; " if told else ""
        return f"{tokens}recorded as version {event['version']}"


def ending(run: Row, effects: list[Row], place: Path, moved: Path | None) -> str:
    """The last lines: status, what happened downstream, where it lies, what to try next."""
    steps, tokens = run["step_count"], count(run["usage"]["tokens"])
    lines = [
        "",
        f"{status_text(run['status'])} ({plain(run['reason'])}), {steps} steps, {tokens} tokens",
    ]
    if run.get("output") is not None:
        lines.append(f"output  {clipped(plain(short_json(run['output'])), _WIDTH)}")
    lines.append(f"effects in {place / 'payments.jsonl'}, written by the payments service itself:")
    lines += [f"  {plain(effect['kind']):<13} {plain(effect['key'])}" for effect in effects]
    kept = f"; the demo before is now in {moved}" if moved else ""
    lines += ["", f"data is kept in {place}{kept}", "try next:"]
    tries = (f"show {run['run_id']}", "effects", f"watch {run['run_id']}")
    lines += [f"  treadle {words} --data-dir {place}" for words in tries]
    return "\n".join([*lines, "  treadle init my-app"])


def effects_in(place: Path) -> list[Row]:
    """What the payments service wrote, one row per effect."""
    try:
        text = (place / "payments.jsonl").read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    return [cast("Row", json.loads(line)) for line in text.splitlines()]


def _evidence(run: Row, evidence_id: object) -> Row:
    items: list[Row] = [item for item in run["evidence"] if item["id"] == evidence_id]
    return items[0] if items else {}
