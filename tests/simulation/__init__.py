"""Seeded fault schedules over the real roles, in virtual time (``python -m tests.simulation``).

Everything that decides is the daemon's own code, put together by ``treadle.assembly``. Simulated
are the event loop (``machine``), the network (``network``), the streams (``queue``), the disk
(``disk``), the provider (``provider``), the downstream (``shop``) and time. One integer seed fixes
all of it (``options``). What must never happen is checked at every commit, claim and effect
(``judge``); ``plants`` breaks one rule at a time to show that the checks find it.
"""
