"""Strategies: pure functions that say what to ask next when nothing is pending."""
