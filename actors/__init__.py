"""One thin actor per concern: receive a typed message, do one job, reply."""
