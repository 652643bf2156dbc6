"""Measurements. Nothing here decides whether a test passes."""
