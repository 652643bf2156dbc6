"""The payments service of the refund example: a downstream that Treadle does not own.

::

    python -m treadle.examples.refunds.payments --data-dir DIR

A process of its own on 127.0.0.1, so that killing Treadle does not kill what Treadle called. It
writes its address to ``DIR/payments.json`` when it is ready, and every effect to
``DIR/payments.jsonl``; started again on the same folder, it still honours the keys in that file.
Here is the process and its HTTP; ``cashier`` and ``desk`` list what it answers.
"""

import argparse
import json
import os
import signal
import socketserver
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from types import FrameType
from typing import Any, Final, cast, final
from urllib.parse import parse_qsl, unquote, urlsplit

from treadle.examples.refunds.cashier import Asked, Cashier, RefusedError
from treadle.examples.refunds.desk import Desk
from treadle.examples.refunds.effects import EffectLog, FileCorruptError, FileHeldError
from treadle.examples.refunds.faults import BadFaultError, FaultBoard
from treadle.examples.refunds.place import EXIT_HELD, Address, Place, try_lock

_MAX_BODY: Final = 64 * 1024
_MAX_CONNECTIONS: Final = 128
_SOCKET_S: Final = 10.0
_POLL_S: Final = 0.1


@final
class Listener(socketserver.ThreadingTCPServer):
    """The socket and the life of the process. One thread per connection, a bounded number."""

    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 128
    timeout = _POLL_S

    def __init__(self, place: Place, *, port: int, idle_exit_s: float) -> None:
        """Own the folder's file, then listen.

        Raises:
            FileHeldError: another service owns the folder.
            FileCorruptError: the file cannot be trusted.
            BadFaultError: a fault variable has a wrong value.
        """
        faults = FaultBoard(os.environ)
        self.is_stopping = False
        self._place = place
        self._log = EffectLog(place.effects)
        self.desk = Desk(Cashier(self._log), faults)
        self._slots = threading.BoundedSemaphore(_MAX_CONNECTIONS)
        self._idle_exit_s = idle_exit_s
        self._last_request_s = _now_s()
        super().__init__(("127.0.0.1", port), Handler)

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def run(self) -> None:
        """Serve until told to stop, or until nobody can want it any more."""
        self._place.write_address(Address(url=self.url, pid=os.getpid()))
        sys.stdout.write(f"payments service ready at {self.url}\n")
        sys.stdout.flush()
        try:
            while not (self.is_stopping or self.desk.is_asked_to_stop):
                self.handle_request()
        finally:
            self._place.forget_address(os.getpid())
            self.server_close()
            # The file stays ours until the process ends, since threads may still write to it.

    def handle_timeout(self) -> None:
        """In a quiet moment, see whether anybody can still want this process."""
        if self._log.is_gone:
            self.is_stopping = True
        elif self._idle_exit_s and _now_s() - self._last_request_s > self._idle_exit_s:
            self._stop_if_unused()

    def _stop_if_unused(self) -> None:
        # Both locks are kept until the process ends: whoever wants a service meanwhile waits for
        # the switch and then starts a new one.
        if (switch := try_lock(self._place.switch)) is not None:
            if try_lock(self._place.users) is not None:
                self.is_stopping = True
            else:
                os.close(switch)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Start a thread for a connection, once one of the slots is free."""
        self._last_request_s = _now_s()
        self._slots.acquire()
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve a connection and give its slot back."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._slots.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing about a caller that went away; print anything else."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


@final
class Handler(BaseHTTPRequestHandler):
    """One request per connection, every read and write under a deadline."""

    protocol_version = "HTTP/1.1"
    timeout = _SOCKET_S

    def do_GET(self) -> None:
        """Answer a GET."""
        self._serve()

    def do_POST(self) -> None:
        """Answer a POST."""
        self._serve()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name upstream
        """Keep quiet: ``GET /stats`` counts what there is to know."""

    def _serve(self) -> None:
        self.close_connection = True
        try:
            answer = cast("Listener", self.server).desk.respond(self._asked())
        except RefusedError as refused:
            answer = refused.as_answer()
        if answer is None:
            return
        content = json.dumps(answer.content, separators=(",", ":")).encode()
        self.send_response(answer.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(content)

    def _asked(self) -> Asked:
        target = urlsplit(self.path)
        return Asked(
            method=self.command,
            path=tuple(unquote(part) for part in target.path.removeprefix("/").split("/")),
            query=dict(parse_qsl(target.query)),
            body=self._body(),
            key=self.headers.get("Idempotency-Key"),
        )

    def _body(self) -> dict[str, object]:
        length = self.headers.get("Content-Length", "0")
        if not length.isascii() or not length.isdigit() or "Transfer-Encoding" in self.headers:
            raise RefusedError(411, "no_length", "send a Content-Length")
        if int(length) > _MAX_BODY:
            raise RefusedError(413, "too_large", f"a body has {_MAX_BODY} bytes at most")
        content = self.rfile.read(int(length))
        try:
            body: object = json.loads(content or b"{}")
        except (ValueError, RecursionError):
            raise RefusedError(400, "bad_json", "the body is not JSON") from None
        if len(content) < int(length) or not isinstance(body, dict):
            raise RefusedError(400, "bad_json", "the body is not a whole JSON object")
        return cast("dict[str, object]", body)


def _now_s() -> float:
    return time.monotonic()  # noqa: TID251 - another process than Treadle, with its own clock


def main() -> int:
    """Run the service until it is told to stop.

    Returns:
        0 after a stop, 75 where another service owns the folder, 1 where it cannot start.
    """
    parser = argparse.ArgumentParser(prog="payments", description="the example payments service")
    parser.add_argument("--data-dir", type=Path, default=Path(".treadle"))
    parser.add_argument("--port", type=int, default=0, help="0: any free one")
    parser.add_argument("--idle-exit-s", type=float, default=0.0, help="end when unused; 0: never")
    options = parser.parse_args()
    place = Place(cast("Path", options.data_dir).absolute())
    place.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        listener = Listener(place, port=options.port, idle_exit_s=options.idle_exit_s)
    except FileHeldError:
        sys.stderr.write(f"another payments service owns {place.effects}\n")
        return EXIT_HELD
    except (FileCorruptError, BadFaultError, OSError) as error:
        sys.stderr.write(f"payments service: {error}\n")
        return 1

    def stop(_signal: int, _frame: FrameType | None) -> None:
        listener.is_stopping = True

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    listener.run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
