"""A small HTTP door: who may listen where, one bounded server, health of a process."""
