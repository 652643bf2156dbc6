"""Driving runs, one directive at a time."""
