"""The journal of every run and the keys of every side effect."""
