"""What is told when a run ends: the document of `--json`, without secrets, at no cost for the run."""

from __future__ import annotations

import json
import shlex
import sys
import threading
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import numpy as np
import pytest
import zarr
from numcodecs import Zlib
from tests.support.web_servers import serving

import zarrlift
from zarrlift.cli import main
from zarrlift.cli.status_command import with_page
from zarrlift.errors import UsageError
from zarrlift.jobs import notify
from zarrlift.jobs.observed import observed
from zarrlift.recipe.options import Watching
from zarrlift.storage.redact import secrets_of
from zarrlift.transfer.events import TaskDone

SECRET = "T0KEN-in-a-path"


class Hook(BaseHTTPRequestHandler):
    """Keeps what it gets, and answers with a status."""

    got: list[tuple[dict[str, str], object]]
    status = 204
    released: threading.Event | None = None

    def log_message(self, *_):
        """Say nothing."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.got.append((dict(self.headers), json.loads(body)))
        if self.released is not None:
            self.released.wait()
        self.send_response(self.status)
        self.send_header("Location", f"/elsewhere/{SECRET}")
        self.end_headers()


@pytest.fixture
def hook():
    """A class of handlers of its own, and its URL."""

    class Own(Hook):
        got = []

    with serving(Own) as url:
        yield Own, f"{url}/{SECRET}?also={SECRET}"


def archive(folder: Path, *, damaged: bool = False) -> str:
    array = zarr.create_array(
        folder, shape=(20,), chunks=(2,), dtype="<i4", zarr_format=2, compressors=Zlib(level=1)
    )
    array[:] = np.arange(20)
    if damaged:
        (folder / "7").write_bytes(b"not zlib")
    return str(folder)


def printed(capsys) -> dict:
    out, err = capsys.readouterr()
    assert "notification" not in err
    return json.loads(out)


@pytest.mark.parametrize("damaged", [False, True], ids=["done", "failed"])
def test_a_webhook_gets_what_json_prints(damaged, hook, tmp_path, capsys):
    own, url = hook
    old, new = archive(tmp_path / "old", damaged=damaged), str(tmp_path / "new")
    words = ["migrate", old, new, "--codecs", "zstd:1", "--json", "--notify", url]
    assert main(words) == int(damaged)
    [(headers, told)] = own.got
    assert told == printed(capsys)
    assert told["result"]["state"] == ("incomplete" if damaged else "done")
    assert headers["Content-Type"] == "application/json"
    assert main(["resume", new, "--json", "--notify", url]) == int(damaged)
    assert own.got[1][1] == printed(capsys)


def test_an_error_is_told(hook, tmp_path, capsys):
    own, url = hook
    old, new = archive(tmp_path / "old"), archive(tmp_path / "new")
    assert main(["migrate", old, new, "--json", "--notify", url]) == 2
    assert own.got[0][1] == printed(capsys)
    assert own.got[0][1]["error"]["kind"] == "usage"


def test_the_end_of_a_list_is_told(hook, tmp_path, capsys):
    own, url = hook
    archive(tmp_path / "in" / "a"), archive(tmp_path / "in" / "b", damaged=True)
    to = str(tmp_path / "out/{relative}")
    words = ["batch", "run", str(tmp_path / "in/*"), "--to", to, "--codecs", "zstd:1", "--json"]
    assert main([*words, "--notify", url]) == 1
    [(_, told)] = own.got
    assert told == printed(capsys)
    assert told["result"]["counts"] == {"done": 1, "failed": 1}


def test_an_interruption_is_told(hook, tmp_path):
    own, url = hook

    def stop(event: object) -> None:
        if isinstance(event, TaskDone):
            raise KeyboardInterrupt

    old, new = archive(tmp_path / "old"), tmp_path / "new"
    with pytest.raises(zarrlift.Interrupted) as stopped:
        zarrlift.migrate(old, new, notify=url, progress=stop)
    [(_, told)] = own.got
    assert told["exit_code"] == 130
    assert told["error"]["advice"] == f"Continue with: zarrlift resume {stopped.value.job}"


def test_a_command_gets_it_on_its_standard_input(tmp_path):
    got = tmp_path / "got.json"
    code = "import sys; open(sys.argv[1], 'wb').write(sys.stdin.buffer.read())"
    command = shlex.join([sys.executable, "-c", code, str(got)])
    outcome = zarrlift.migrate(archive(tmp_path / "old"), tmp_path / "new", notify=command)
    assert json.loads(got.read_text())["result"] == json.loads(json.dumps(outcome.to_json()))


@pytest.mark.parametrize("status", [302, 404, 500])
def test_a_webhook_that_refuses_fails_nothing(status, hook, tmp_path, capsys):
    own, url = hook
    own.status = status
    assert zarrlift.migrate(archive(tmp_path / "old"), tmp_path / "new", notify=url).ok
    _, err = capsys.readouterr()
    place = url.rpartition("/")[0]
    assert f"the notification was not taken by {place}: it answers with status {status}\n" in err
    assert err.count("\n") == 1
    assert SECRET not in err
    assert len(own.got) == 1


@pytest.mark.parametrize(
    ("target", "words"),
    [
        (f"http://127.0.0.1:9/{SECRET}", "refused"),
        (f"http://nobody.invalid/{SECRET}", "http://nobody.invalid: "),
        (shlex.join([sys.executable, "-c", "import sys; sys.exit(3)", SECRET]), "exit code 3"),
    ],
)
def test_what_cannot_be_reached_fails_nothing(target, words, tmp_path, capsys):
    assert zarrlift.migrate(archive(tmp_path / "old"), tmp_path / "new", notify=target).ok
    _, err = capsys.readouterr()
    assert err.count("\n") == 1
    assert words in err
    assert SECRET not in err


def test_what_does_not_answer_is_not_waited_for(hook, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(notify, "_SECONDS", 0.2)
    own, url = hook
    own.released = threading.Event()
    never = shlex.join([sys.executable, "-c", "import signal; signal.pause()"])
    try:
        for number, target in enumerate((url, never)):
            new = tmp_path / f"new{number}"
            assert zarrlift.migrate(archive(tmp_path / f"old{number}"), new, notify=target).ok
            assert "no answer in 0 s" in capsys.readouterr().err
    finally:
        own.released.set()


@pytest.mark.parametrize(
    "target",
    [
        f"ftp://host/{SECRET}",
        f"https:///{SECRET}",
        f"http://host:x/{SECRET}",
        "no-such-command now",
        "'open",
        " ",
    ],
)
def test_what_cannot_be_notified_is_refused_before_anything_is_written(target, tmp_path):
    with pytest.raises(UsageError) as caught:
        zarrlift.migrate(archive(tmp_path / "old"), tmp_path / "new", notify=target)
    assert SECRET not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["old"]


def test_no_secret_is_sent(hook, monkeypatch):
    own, url = hook
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "of-the-environment")
    secrets_of({"key": "of-the-options"})
    target = url.replace("http://", "http://user:pass%20word@")
    text = "s3://user:password@bucket/a?signature=1 of-the-options of-the-environment"
    with (
        pytest.raises(UsageError),
        observed(False, "", "", Watching(notify=target), "update"),
    ):
        raise UsageError(text, found=text)
    [(headers, told)] = own.got
    assert told["error"]["found"] == "s3://bucket/a?... ... ..."
    assert told["command"] == "update"
    assert "password" not in json.dumps(told)
    assert headers["Authorization"] == "Basic dXNlcjpwYXNzIHdvcmQ="


def test_a_page_is_refreshed_while_it_is_watched(tmp_path, capsys):
    clock = iter([0.0, 0.0, 5.0, 20.0, 20.0, 30.0])
    pages: list[int] = []
    numbers = iter(range(4))
    ask = with_page(lambda: next(numbers), pages.append, clock=lambda: next(clock))
    assert [ask() for _ in range(4)] == [0, 1, 2, 3]
    assert pages == [0, 2]
    old, new, page = archive(tmp_path / "old"), str(tmp_path / "new"), tmp_path / "page.html"
    assert main(["migrate", old, new, "-q"]) == 0
    assert main(["status", new, "--watch", "--html", str(page)]) == 0
    assert "new" in page.read_text()
