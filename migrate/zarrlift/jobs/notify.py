"""Tells a webhook or a command how a run has ended (`--notify`), by the document that `--json` prints.

Nothing that goes wrong with it fails the run: it is one line on standard error.
"""

from __future__ import annotations

import base64
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

from zarrstack.core.errors import UsageError
from zarrstack.version import __version__

from ..errors import Interrupted
from ..storage.redact import secrets_of_process
from .json_document import DONE, INTERRUPTED, PARTLY, USAGE, document, problem_of
from .log_messages import print_warning, without_secrets
from .units import command as command_line

if TYPE_CHECKING:
    from zarrstack.core.json_text import JSONObject

    from .batch.rows import BatchOutcome
    from .outcome import Outcome

_SECONDS: Final = 30.0
"""For a webhook or a command to take the document."""

Send = Callable[[bytes], None]


@contextmanager
def notifying(
    target: str, outcome_of: Callable[[], Outcome | BatchOutcome | None], verb: str
) -> Iterator[None]:
    """Tell a target how the block ends, with its outcome. UsageError for what is no URL and no command."""
    name, send = _receiver(target)
    try:
        yield
    except KeyboardInterrupt as stopped:
        _tell(name, send, document(verb, INTERRUPTED, {"error": _interrupted(stopped)}))
        raise
    except Exception as error:
        problem = problem_of(error)
        code = USAGE if problem.kind == "usage" else PARTLY
        _tell(name, send, document(verb, code, {"error": dict(problem.to_json())}))
        raise
    outcome = outcome_of()
    if outcome is not None:
        code = DONE if outcome.ok else PARTLY
        _tell(name, send, document(verb, code, {"result": outcome.to_json()}))


def _interrupted(stopped: KeyboardInterrupt) -> JSONObject:
    problem: JSONObject = {"kind": "interrupted", "severity": "refusal", "message": "interrupted"}
    if isinstance(stopped, Interrupted):
        problem["advice"] = f"Continue with: {command_line('resume', stopped.job, *stopped.options)}"
    return problem


def _tell(name: str, send: Send, content: JSONObject) -> None:
    body = json.dumps(without_secrets(content, secrets_of_process()), default=str).encode()
    failures: list[Exception] = []

    def call() -> None:
        try:
            send(body)
        except Exception as error:  # noqa: BLE001 - nothing here fails a run
            failures.append(error)

    # A server may send its answer byte by byte, each in time: the whole is bounded here.
    thread = threading.Thread(target=call, name="zarrlift-notify", daemon=True)
    thread.start()
    thread.join(_SECONDS + 1)
    if thread.is_alive():
        failures.append(TimeoutError())
    for error in failures[:1]:
        text = f"no answer in {_SECONDS:.0f} s" if isinstance(error, TimeoutError) else str(error)
        print_warning(f"zarrlift: the notification was not taken by {name}: {' '.join(text.split())}")


def _receiver(target: str) -> tuple[str, Send]:
    """What to call a target without a secret, which the path of a webhook is, and how to reach it."""
    expected = "a URL (https://...), or a command"
    if "://" in target.split(" ", 1)[0]:
        try:
            url = urlsplit(target)
            host, port = url.hostname, url.port
        except ValueError:
            host, port = None, None
        if url.scheme not in ("http", "https") or not host:
            raise UsageError("this cannot be notified", found=f"a URL of {url.scheme}", expected=expected)
        name = f"{url.scheme}://{host}" + (f":{port}" if port else "")
        headers = {"Content-Type": "application/json", "User-Agent": f"zarrlift/{__version__}"}
        if url.username is not None:
            user = f"{unquote(url.username)}:{unquote(url.password or '')}".encode()
            headers["Authorization"] = "Basic " + base64.b64encode(user).decode()
        place = url._replace(netloc=url.netloc.rpartition("@")[2], fragment="").geturl()
        return name, partial(_post, place, headers)
    try:
        words = shlex.split(target)
    except ValueError as error:
        raise UsageError("the command to notify is not closed", found=str(error)) from None
    if not words or shutil.which(words[0]) is None:
        found = repr(words[0]) if words else "nothing"
        raise UsageError("there is no such command to notify", found=found, expected=expected)
    return words[0], partial(_run, words)


def _post(url: str, headers: dict[str, str], body: bytes) -> None:
    from urllib.error import HTTPError
    from urllib.request import HTTPRedirectHandler, Request, build_opener

    class NoRedirect(HTTPRedirectHandler):
        """A redirected POST would become a GET, without the document."""

        def redirect_request(self, *_: Any) -> None:
            return None

    request = Request(url, data=body, headers=headers, method="POST")  # noqa: S310 - see `_receiver`
    try:
        build_opener(NoRedirect).open(request, timeout=_SECONDS).close()
    except HTTPError as error:  # which holds the connection
        error.close()
        raise RuntimeError(f"it answers with status {error.code}") from None


def _run(words: list[str], body: bytes) -> None:
    """Run a command with the document on its standard input, apart from the signals of the terminal."""
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True
    ) as process:
        try:
            process.communicate(body, timeout=_SECONDS)
        except subprocess.TimeoutExpired:
            if sys.platform == "win32":
                process.kill()
            else:
                os.killpg(process.pid, signal.SIGKILL)
            raise TimeoutError from None
    if process.returncode:
        raise RuntimeError(f"exit code {process.returncode}")
