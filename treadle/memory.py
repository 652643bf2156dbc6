"""Tools for long runs: notes and a to-do list that survive, results read further."""

from runtime.tools.memory import keep_notes, keep_todo, read_result

__all__ = ["keep_notes", "keep_todo", "read_result"]
