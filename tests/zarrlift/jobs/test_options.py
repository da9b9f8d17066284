"""Options that go with a job: how its source is to be read, and what the commands hold that it advises."""

from __future__ import annotations

import json
import shlex
import sqlite3
import subprocess
import uuid
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import zarrlift
from zarrlift.cli import main
from zarrlift.cli.options import by_place
from zarrlift.core import format_table as table
from zarrlift.core.problems import command
from zarrlift.core.units import quoted
from zarrlift.errors import JobError, UsageError
from zarrlift.formats.zarr_v2 import reader as zarr_v2
from zarrlift.jobs.ledger.ledger import Job
from zarrlift.jobs.option_words import option_words, remembered
from zarrlift.recipe.options import Places, Reading
from zarrlift.report import outcome as report_outcome
from zarrlift.report import status as report_status
from zarrlift.report.text import Page
from zarrlift.report.text import lines as printed


@pytest.fixture
def asked(monkeypatch):
    """What each reading of the source was asked for: a reader of Zarr v2 that takes every option."""
    calls = []
    real = zarr_v2.reader

    def reader(storage, row, reading, **options):
        names = ("follow_links", "axes", "allow_fallback")
        calls.append({name: getattr(reading, name) for name in names})
        return real(storage, row, reading, **options)

    monkeypatch.setattr(zarr_v2, "reader", reader)
    row = replace(table.FORMATS["zarr2"], options=("axes", "allow_fallback"))
    monkeypatch.setitem(table.FORMATS, "zarr2", row)
    return calls


def test_a_job_remembers_how_its_source_was_read(source, destination, asked):
    options = {"follow_links": True, "axes": "kept", "allow_fallback": True}
    (source / "g/recode/0").write_bytes(b"broken")
    assert not zarrlift.migrate(source, destination, **options).ok
    assert not zarrlift.resume(destination).ok
    assert not zarrlift.verify(source, destination).ok
    assert asked == [options] * 3


def test_what_is_said_to_verify_comes_before_what_the_job_says(source, destination, asked):
    zarrlift.migrate(source, destination, axes="kept")
    zarrlift.verify(source, destination, axes="reversed")
    assert [call["axes"] for call in asked] == ["kept", "reversed"]


@pytest.mark.parametrize(("in_place", "axes"), [(False, "reversed"), (True, "kept")])
def test_axes_are_reversed_in_copies_and_kept_in_place_unless_it_is_said(
    source, tmp_path, asked, in_place, axes
):
    destination = source if in_place else tmp_path / "out.zarr"
    zarrlift.migrate(source, None if in_place else destination, in_place=in_place)
    (tmp_path / f"{destination.name}.zarrlift.db").unlink()
    zarrlift.verify(source, destination)
    assert [call["axes"] for call in asked] == [axes, axes], "verify finds it out without a job too"


def test_other_axes_are_another_job(source, destination, asked):
    zarrlift.migrate(source, destination, axes="kept")
    assert zarrlift.migrate(source, destination, axes="kept").state == "nothing to do"
    with pytest.raises(JobError, match="belongs to a different job"):
        zarrlift.migrate(source, destination)


def test_a_job_remembers_how_large_documents_may_be(source, tmp_path, destination):
    (source / "g/.zattrs").write_text(json.dumps({"text": "a" * 1000}))
    outcome = zarrlift.migrate(source, destination, max_document_size=1000)
    (told,) = [problem for problem in outcome.problems if problem.severity == "refusal"]
    assert (told.node, told.key, told.expected) == ("g", "g/.zattrs", "at most 1000 bytes")
    assert not zarrlift.verify(source, destination).ok, "the job says what was refused"
    (tmp_path / "out.zarr.zarrlift.db").unlink()
    assert zarrlift.migrate(source, tmp_path / "whole.zarr", max_document_size=2000).ok


def test_axes_mean_nothing_to_a_format_without_such_a_choice(source, destination):
    assert zarrlift.migrate(source, destination, axes="kept", allow_fallback=True).ok
    assert zarrlift.migrate(source, destination, axes="reversed").state == "nothing to do"
    assert zarrlift.verify(source, destination, axes="reversed", full=True).ok


def test_no_other_orders_are_known(source):
    with pytest.raises(UsageError, match="unknown order of axes; found 'zyx'; expected reversed, kept"):
        zarrlift.inspect(source, axes="zyx")


def test_options_survive_the_job_file_and_older_files_have_the_defaults():
    options = Reading(follow_links=True, axes="kept", allow_fallback=True, max_document_size=1)
    assert Reading.from_json({**options.to_json(), "format": "n5"}) == options
    assert Reading.from_json({"follow_links": True}) == Reading(follow_links=True)


def test_a_job_whose_format_is_not_read_here_is_refused(source, tmp_path, destination):
    assert zarrlift.migrate(source, destination).ok
    with closing(sqlite3.connect(tmp_path / "out.zarr.zarrlift.db")) as job:
        (plan,) = job.execute("SELECT value FROM meta WHERE name = 'plan'").fetchone()
        changed = json.dumps({**json.loads(plan), "format": "tiles"})
        job.execute("UPDATE meta SET value = ? WHERE name = 'plan'", (changed,))
        job.commit()
    expected = ", ".join(sorted(table.FORMATS))
    for verb in (zarrlift.resume, zarrlift.verify, zarrlift.update, zarrlift.plan_update):
        with pytest.raises(JobError, match=f"has the format 'tiles'.*expected {expected}"):
            verb(destination)


# Commands that a job advises hold the storage options that they need, and no secret.

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
    places = Places(storage_options=source, dest_storage_options=destination)
    job.note(**remembered(places, in_place=in_place))
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
    needed = f"j.db --storage-options {quoted('dst:key=<key>')} --storage-options {quoted('dst:anon=true')}"
    assert needed in capsys.readouterr().out
    status = zarrlift.status("j.db")
    assert needed in list(printed(report_status.blocks(status), Page(width=300)))[-1]
    assert b"AKIAEXAMPLE" not in Path("j.db").read_bytes()
    outcome = zarrlift.resume("j.db", dest_storage_options={"anon": False})
    assert outcome.options == ("--storage-options", "dst:anon=false"), "those that were given last"
    *_, last = printed(report_outcome.blocks(outcome), Page(width=300))
    assert last.endswith(f"j.db --storage-options {quoted('dst:anon=false')}")


def test_an_interruption_names_them_too(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("zarrlift.jobs.run.Run._run_arrays", stop)
    with pytest.raises(zarrlift.Interrupted) as stopped:
        zarrlift.migrate(
            source, f"memory://{uuid.uuid4()}/x", job=tmp_path / "j.db", dest_storage_options={"key": "AKIA"}
        )
    assert stopped.value.options == ("--storage-options", "dst:key=<key>")


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
