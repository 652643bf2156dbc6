"""Become another program that dies with the process that started it (Linux).

Run as a script, ``python with_parent.py PARENT_PID PROGRAM ARGS…``: a hook between fork and exec
would run Python in the forked child of a process with threads. The kernel keeps the setting over
exec, and binds it to the thread that started us.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    """Ask the kernel for SIGKILL at the parent's death, then exec.

    SIGKILL, since what waits for the port and the store must be able to have them at once.
    """
    parent = int(sys.argv[1])
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:
        sys.exit("the parent was gone before its death could be watched")
    os.execv(sys.argv[2], sys.argv[2:])  # noqa: S606 -- to become that program is the point


if __name__ == "__main__":
    main()
