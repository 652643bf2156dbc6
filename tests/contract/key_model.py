"""What an idempotency key promises, told again from DESIGN.md section 6 and G11, on its own.

It shares no code with the ledger's rules: one key, a handful of runs with one call each, and for
each operation the one word that its answer has to amount to.
"""

from dataclasses import dataclass, field

W_S = 40.0


@dataclass
class Key:
    """One key of one tenant.

    Attributes:
        holder: The run whose intent was the last to be taken.
        result: What it gives for ever, once it is done.
        starts: Every claim that was ever answered with yes, as (run, is it a replay).
    """

    state: str = "free"
    holder: str = ""
    action: str = ""
    grant: str = ""
    claims: list[tuple[str, float]] = field(default_factory=list)
    result: str = ""
    ended: set[str] = field(default_factory=set)
    starts: list[tuple[str, bool]] = field(default_factory=list)

    def intend(self, run: str, action: str, grant: str) -> str:
        """A run wants to do this under the key."""
        if run in self.ended:
            return "ended"
        is_mine = self.state in {"intended", "started"} and self.holder == run
        if self.state != "free" and action != self.action:
            return "mismatch"
        if self.state == "done":
            return "done"
        if self.state != "free" and not is_mine:
            return "busy"
        if not is_mine:
            self.claims = []
        self.state, self.holder, self.action, self.grant = "intended", run, action, grant
        return "taken"

    def claim(self, run: str, grant: str, claim: str, at: float, *, is_replay: bool) -> str:
        """An executor is about to start it."""
        is_known = any(known == claim for known, _ in self.claims)
        if self.holder == run and is_known:
            return "claimed"
        is_next = self.state == "intended" and (run, grant) == (self.holder, self.grant)
        if not is_next or (self.claims and not is_replay):
            return "refused"
        self.starts.append((run, bool(self.claims)))
        self.claims.append((claim, at))
        self.state = "started"
        return "claimed"

    def void(self, run: str, grant: str) -> str:
        """Its run asks whether it may take the intent back."""
        if self.state == "free":
            return "voided"
        if run != self.holder:
            return "elsewhere"
        if self.state == "done":
            return "happened"
        if self.claims or self.state != "intended":
            return "started"
        if grant != self.grant:
            return "elsewhere"
        self.state = "free"
        return "voided"

    def settle_ok(self, run: str, result: str) -> None:
        """It happened, whichever grant of the run it was."""
        if run == self.holder and self.state != "done":
            self.state, self.result = "done", result

    def settle_error(self, run: str, grant: str, claim: str) -> str:
        """It says that nothing happened: proof, if nothing else of the key can still arrive."""
        is_last = bool(self.claims) and self.claims[-1][0] == claim
        if run != self.holder or self.state == "done" or grant != self.grant or not is_last:
            return "no proof"
        last = self.claims[-1][1]
        if any(last < earlier + W_S for _, earlier in self.claims[:-1]):
            return "no proof"
        self.state = "free"
        return "proof"

    def absent(self, run: str, at: float) -> str:
        """A lookup did not find it."""
        if run in self.ended:
            return "ended"
        is_open = self.state in {"intended", "started"} and run == self.holder
        if not is_open:
            return "noted"
        if self.claims and at < self.claims[-1][1] + W_S:
            return "too early"
        self.state = "free"
        return "noted"

    def finish(self, run: str) -> None:
        """The run ends: what it leaves open is unknown, unless it was never claimed."""
        if run in self.ended:
            return
        self.ended.add(run)
        if run == self.holder and self.state in {"intended", "started"}:
            is_untouched = self.state == "intended" and not self.claims
            self.state = "free" if is_untouched else "unknown"

    def resolve(self, result: str, at: float) -> str:
        """A person knows; no result: that it did not happen, which counts from W on."""
        if self.state != "unknown":
            return "refused"
        if not result and self.claims and at < self.claims[-1][1] + W_S:
            return "too early"
        self.state, self.result = ("done", result) if result else ("free", "")
        return "resolved"
