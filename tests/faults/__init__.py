"""Real processes, really killed, paused and told to stop: see ``python -m tests.faults --help``."""
