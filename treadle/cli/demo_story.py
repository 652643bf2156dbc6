"""What the demo tells: each iteration as it happens, the approval, and how it ended."""

import json
import sys
from pathlib import Path
from typing import cast

from treadle.cli.format import Row, call_text, clipped, count, plain, short_json, status_text
from treadle.cli.session import Reader

_WIDTH = 96


class Story:
    """Tells one run. Feed it every event in order."""

    def __init__(self, reader: Reader, *, is_data: bool) -> None:
        """Args: reader: for results; is_data: whether the story is what goes to stdout."""
        self._reader = reader
        self._stream = sys.stdout if is_data else sys.stderr
        self._tokens = 0
        self._decided: Row = {}
        self._keys: dict[str, str] = {}

    def say(self, text: str = "") -> None:
        """Print one line at once."""
        print(text, file=self._stream, flush=True)

    async def tell(self, event: Row) -> None:
        """Print what an event adds to the story, if anything."""
        match event["kind"]:
            case "decided":
                self._decided = event
                self._tokens += event.get("tokens", 0)
            case "accepted":
                self._keys.update(
                    {call["tool"]: call["key"] for call in event["calls"] if call["key"]}
                )
            case "observed":
                await self._tell_observation(event)
            case "approval_requested":
                self._tell_head(event["step"], event["tool"])
                self.say(
                    f"        needs approval by {plain(event['group'])} ({plain(event['rule'])})"
                )
                self.say(f"        recorded as version {event['version']}; no worker waits for it")
            case "approval_resolved":
                person = plain(event["person"])
                self.say(
                    f"        {plain(event['decision'])} by {person}, version {event['version']}"
                )
            case "completion_rejected" | "proposal_rejected" | "step_lost":
                self.say(
                    f"        {event['kind']}: {plain(event.get('message') or event.get('why'))}"
                )
            case "verified":
                finding = "there" if event["is_there"] else "NOT there"
                self.say(f"verify  {plain(event['key'])}: looked up again, {finding}")
            case _:
                pass

    async def _tell_observation(self, event: Row) -> None:
        run = await self._reader.show(event["run_id"], at=event["version"])
        evidence = _evidence(run, event.get("evidence_id"))
        self._tell_head(event["step"], event.get("tool") or evidence.get("tool"), evidence)
        if evidence:
            payload = clipped(
                plain(short_json(evidence.get("payload", evidence.get("ref")))), _WIDTH
            )
            self.say(f"        → {payload}")
            origin = f"{plain(evidence['id'])} from {plain(evidence['source'])}"
            self.say(f"        {origin}, request {plain(evidence['request_id'])}")
        else:
            self.say(f"        {plain(event['outcome'])}: {plain(event.get('message', ''))}")
        used = f"{count(self._decided.get('tokens', 0))} tokens, {count(self._tokens)} in all"
        self.say(f"        {used}; version {event['version']}")

    def _tell_head(self, step: object, tool: object, evidence: Row | None = None) -> None:
        arguments = (evidence or {}).get("arguments")
        key = self._keys.get(str(tool))
        key_text = f"  key {plain(key)}" if key else ""
        self.say(f"step {plain(step)}  {call_text(tool, arguments)}{key_text}")


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
