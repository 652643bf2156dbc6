"""Projections of the ledger to the JSON that people and programs see (CONTRACT.md section 2).

Pure functions of a folded state, rows and journal entries. The gateway answers with them, the
offline reader prints them, the orchestrator publishes them; a name in here is a promise to users.
``reading`` is the one module that asks a ledger; it is the same for a daemon and a data directory.
"""

from runtime.views.agents import agent_row, tool_rows
from runtime.views.approvals import approval_detail, approval_row, waiting_approvals
from runtime.views.effects import effect_chain, effect_row
from runtime.views.events import event_line, event_lines
from runtime.views.run import (
    list_row,
    question_of,
    result_of,
    show_run,
    without_payloads,
)
from runtime.views.trace import trace_run

__all__ = [
    "agent_row",
    "approval_detail",
    "approval_row",
    "effect_chain",
    "effect_row",
    "event_line",
    "event_lines",
    "list_row",
    "question_of",
    "result_of",
    "show_run",
    "tool_rows",
    "trace_run",
    "waiting_approvals",
    "without_payloads",
]
