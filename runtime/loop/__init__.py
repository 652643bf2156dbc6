"""The pure loop: a run's journal in, what must happen next out. No I/O, clock or randomness."""
