"""The refund task: an agent, its five tools, and the payments service they call.

``treadle up --app treadle.examples.refunds:app`` runs it.
"""

from treadle.examples.refunds.app import app, refund

__all__ = ["app", "refund"]
