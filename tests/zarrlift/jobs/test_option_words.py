"""Commands that a job advises hold the storage options that they need, and no secret."""

from __future__ import annotations

import json
import shlex
import subprocess
import uuid
from pathlib import Path
from typing import Any

import pytest

import zarrlift
from zarrlift.cli import main
from zarrlift.cli.options import by_place
from zarrlift.jobs.ledger.ledger import Job
from zarrlift.jobs.option_words import option_words, remembered
from zarrlift.jobs.units import command, quoted
from zarrlift.report import outcome as report_outcome
from zarrlift.report import status as report_status
from zarrlift.report.page import Page
from zarrlift.report.text import lines as printed

PLACE = "http://127.0.0.1:9000"
OPTIONS = {
    "endpoint_url": PLACE,
    "anon": False,
    "key": "AKIAEXAMPLE",
    "secret": "it's a secret",
    "region": "12",
}
SHOWN = {"endpoint_url": PLACE, "anon": False, "key": "<key>", "secret": "<secret>", "region": "12"}


def words(source: dict[str, Any], destination: dict[str, Any], job: Job, *, in_place: bool = False) -> Any:
    job.note(**remembered(json.dumps(source), json.dumps(destination), in_place=in_place))
    return option_words(job)


@pytest.fixture
def job(source: Path, tmp_path: Path) -> Any:
    """A job that was given no options."""
    outcome = zarrlift.migrate(source, tmp_path / "out.zarr")
    assert outcome.options == ()
    with Job.open(Path(outcome.job)) as opened:
        yield opened


def test_what_may_be_secret_is_a_placeholder_and_the_rest_can_be_pasted(job: Job) -> None:
    pasted = shlex.split(shlex.join(words(OPTIONS, {}, job)))
    assert set(pasted[::2]) == {"--storage-options"}
    assert by_place(pasted[1::2], ("src",), ("src",)) == {"src": SHOWN}


def test_nested_options_are_one_json_object(job: Job) -> None:
    nested = {"client_kwargs": {"endpoint_url": PLACE, "aws_session_token": "x"}, "token": {"private": 1}}
    option, text = words({}, nested, job)
    assert option == "--storage-options"
    place, _, text = text.partition(":")
    assert place == "dst"
    client = {"endpoint_url": PLACE, "aws_session_token": "<aws_session_token>"}
    assert json.loads(text) == {"client_kwargs": client, "token": {"private": "<private>"}}


def test_in_place_there_is_one_side(job: Job) -> None:
    assert words({"anon": True}, {"anon": True}, job, in_place=True) == ("--storage-options", "anon=true")


def test_a_password_within_an_address_is_not_kept(job: Job) -> None:
    kept = words({"endpoint_url": "https://me:open-sesame@host/"}, {}, job)
    assert kept == ("--storage-options", "endpoint_url=https://host/")


def test_every_command_that_is_advised_holds_them(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    place = f"memory://{uuid.uuid4()}/out.zarr"
    (source / "g/recode/3").write_bytes(b"no chunk")
    options = ["--storage-options", "dst:key=AKIAEXAMPLE", "--storage-options", "dst:anon=true"]
    assert main(["migrate", str(source), place, *options, "--job", "j.db"]) == 1
    needed = "j.db --storage-options 'dst:key=<key>' --storage-options dst:anon=true"
    assert needed in capsys.readouterr().out
    status = zarrlift.status("j.db")
    assert needed in list(printed(report_status.blocks(status), Page(width=300)))[-1]
    assert b"AKIAEXAMPLE" not in Path("j.db").read_bytes()
    outcome = zarrlift.resume("j.db", dest_storage_options={"anon": False})
    assert outcome.options == ("--storage-options", "dst:anon=false"), "those that were given last"
    *_, last = printed(report_outcome.blocks(outcome), Page(width=300))
    assert last.endswith("j.db --storage-options dst:anon=false")


def test_an_interruption_names_them_too(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("zarrlift.jobs.run.Run._arrays", stop)
    with pytest.raises(zarrlift.Interrupted) as stopped:
        zarrlift.migrate(
            source, f"memory://{uuid.uuid4()}/x", job=tmp_path / "j.db", dest_storage_options={"key": "AKIA"}
        )
    assert stopped.value.options == ("--storage-options", "dst:key=<key>")


def test_what_concerns_references_has_options_of_its_own(job: Job) -> None:
    given = {
        "allow_references": ["/data", "s3://b/"],
        "reference_options": {"token": "private", "anon": False},
    }
    assert words({**given, "anon": True}, {}, job) == (
        *("--allow-references", "/data", "--allow-references", "s3://b/"),
        *("--storage-options", 'ref:{"token": "<token>", "anon": false}'),
        *("--storage-options", "anon=true"),
    )


# Commands in advice can be pasted into a shell, whatever characters a path has.


NAMES = [
    "plain.zarr",
    "two words",
    "it's",
    "two\nlines",
    "tab\t's \\ end",
    "bell\x07",
    "left\u202eright",
    "\udcff",
]


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_a_shell_takes_a_quoted_path_back(name: str) -> None:
    shown = quoted(name)
    assert "\n" not in shown, "a line"
    done = subprocess.run(["bash", "-c", f"printf %s {shown}"], capture_output=True, check=True)
    assert done.stdout == name.encode("utf-8", "surrogateescape")


def test_a_path_that_needs_no_quotes_has_none() -> None:
    assert (
        command("verify", "/data/a.zarr", "my result.zarr") == "zarrlift verify /data/a.zarr 'my result.zarr'"
    )
