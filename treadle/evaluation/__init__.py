"""Scripted evaluation suites: the same tasks under several configurations, run by the real roles.

``suite`` is what a suite says, ``reading`` reads it from TOML or says what is wrong with it,
``play`` makes an app of it, ``stage`` runs it on a data directory's ledger.
"""
