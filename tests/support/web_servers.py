"""Web servers for tests, each on a thread of its own, which say nothing of clients that go away."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from socketserver import BaseRequestHandler
from typing import Any


class _Server(ThreadingHTTPServer):
    request_queue_size = 256  # Python's 5 makes clients wait for seconds

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print what is a fault: not that a client did not wait for the end of an answer."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class Files(SimpleHTTPRequestHandler):
    """The files of a folder, none of which is listed; ranges are not heeded."""

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def list_directory(self, path: Any) -> None:
        """Refuse."""
        self.send_error(403)


@contextmanager
def serving(handler: Callable[..., BaseRequestHandler]) -> Iterator[str]:
    """The address of a server, which ends with the block."""
    with _Server(("127.0.0.1", 0), handler) as server:
        # As often, it looks whether it is to end.
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
