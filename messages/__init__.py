"""Typed messages and subjects: the wire contract, without behaviour or I/O."""
