"""Locates job files, and finds the job that belongs to a path or URL."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from zarrstack.core.errors import UsageError
from zarrstack.core.paths import local_path
from zarrstack.core.similar_names import did_you_mean

from ...core.problems import command
from ...errors import JobError
from ...recipe.options import JobPlace, PathText
from ...storage.local.presence import exists, is_file
from ...storage.local.sibling_names import sibling, with_suffix
from ...storage.open_storage import is_url
from ...storage.redact import redact
from .database import SQLITE
from .ledger import Job
from .recorded_places import SUFFIX

LIST_SUFFIX: Final = ".zarrlift.jsonl"
"""Of the list of a batch, each of whose archives has a job of its own."""
_NAME_IT: Final = "The job file of a copy is next to its destination: name the destination or the job file."


def job_path(destination: Path | None, url: str, job: JobPlace) -> Path:
    """The path of a job's file: the given one, or next to a local destination, or in the working directory.

    For in-place work the destination is the source. Remote places often share their last name, so the name of
    a file in the working directory contains a digest of the URL.
    """
    if job.job is not None:
        return _explicit_path(job.job)
    if destination is not None:
        return sibling(destination, SUFFIX)
    return Path.cwd() / _name_of_file(url)


def job_beside(place: str, folder: Path) -> Path:
    """The job file of a destination (in place, the source) where `migrate` puts it, called in `folder`."""
    local = _local(place)
    return folder / _name_of_file(redact(place).rstrip("/")) if local is None else sibling(local, SUFFIX)


def has_job(target: str) -> bool:
    """Whether a job file is where `migrate` puts that of a destination."""
    return is_file(job_beside(target, Path.cwd()))


def _name_of_file(url: str) -> str:
    digest = hashlib.blake2b(url.encode(), digest_size=4).hexdigest()
    last_name = url.rstrip("/").rpartition("/")[2] or "archive"
    return with_suffix(f"{last_name}-{digest}", SUFFIX)


def _explicit_path(explicit: str | os.PathLike[str]) -> Path:
    """A path as given for a job file; UsageError for a URL of a store."""
    text = os.fspath(explicit)
    path = _local(text) if "://" in text else Path(os.path.abspath(text))
    if path is None:
        raise UsageError(
            "a job file is a file, not an object of a store",
            found=redact(text),
            expected="a path",
            advice="Use a lasting volume that all machines mount.",
        )
    return path


def find_job(target: PathText, job: JobPlace = JobPlace()) -> Path:  # noqa: B008 - frozen
    """The job file for `target`, which is a job file, or a destination (in place, a source).

    It is the file that `migrate` makes for a destination: next to a local one, else in the working directory,
    under a name computed from the URL. No folder is searched. Raises JobError with the path of that file.
    """
    if job.job is not None:
        job_file = _explicit_path(job.job)
        if not is_file(job_file):
            raise JobError("there is no such job file", key=os.fspath(job.job), advice=_near(job_file))
        return job_file
    text = os.fspath(target)
    path = Path(text)
    if text.endswith(LIST_SUFFIX) and is_file(path):
        raise JobError(
            "this is a list of archives, each of which has a job",
            key=text,
            advice="In Python, use zarrlift.Batch.",
        )
    if is_file(path) and (path.name.endswith(SUFFIX) or _is_database(path)):
        return path.absolute()
    local = _local(text)
    if local is not None and path.suffix == Path(SUFFIX).suffix and not exists(path):
        raise JobError("there is no such job file", key=text, advice=_near(local))
    wanted = job_beside(text, Path.cwd())
    if is_file(wanted):
        Job.open(wanted, write=False).close()  # report a damaged file by its name
        return wanted
    if is_file(path):
        raise JobError(f"this is not a job file: {path}", found=_what(path), advice=_NAME_IT)
    raise JobError(
        "no job was found for this location",
        key=redact(text),
        expected=str(wanted),
        advice=_near(wanted) or (local and _around(local)) or _NAME_IT,
    )


def _near(wanted: Path) -> str | None:
    """The job file of a similar name in the same folder, as advice; None without one."""
    names = [file.name.removesuffix(SUFFIX) for file in wanted.parent.glob("*" + SUFFIX)]
    near = did_you_mean(wanted.name.removesuffix(SUFFIX), names)
    return f"{near} It is in {wanted.parent}." if near else None


def _around(local: Path) -> str | None:
    """Advice that names the job, or the list, of a folder that contains this path; None without one."""
    for folder in local.parents[:-1]:
        for suffix, what in ((SUFFIX, "job"), (LIST_SUFFIX, "list")):
            if is_file(sibling(folder, suffix)):
                again = command("status", str(folder))
                return f"There is a {what} for {folder}, which contains it. Name that folder: {again}"
    return None


def refuse_undone(job: Job) -> None:
    """Raise JobError if a job was undone, or in part: objects recorded as written may be deleted."""
    if job.state == "undone":
        raise JobError("this job was undone", key=str(job.path), advice="Start a new one with migrate.")
    if job.fact("undoing") is not None:
        raise JobError(
            "an undo of this job was interrupted, and some of its output may be deleted",
            key=str(job.path),
            advice="Run undo again, then migrate again if you want to.",
        )


def _what(path: Path) -> str:
    """Describes a file that is not a job file."""
    from zipfile import is_zipfile  # takes time at every start

    from ...storage.containers.places import HEAD
    from ...storage.foreign_files import known_file

    if is_zipfile(path):
        return "a zip file"
    try:
        with path.open("rb") as file:
            return known_file(file.read(HEAD))[0]
    except OSError as error:
        return error.strerror or str(error)


def _is_database(path: Path) -> bool:
    """Whether a file may be a job file, under any name: `--job` accepts all names."""
    try:
        with path.open("rb") as file:
            return file.read(len(SQLITE)) == SQLITE
    except OSError:
        return False


def _local(text: str) -> Path | None:
    """The local path of a target; None for a URL of another scheme."""
    if text.startswith(("file://", "local://")) and "::" not in text:
        return Path(local_path(unquote(urlsplit(text).path)))
    if text.startswith("icechunk://"):
        from ...storage.icechunk.place import IcechunkPlace

        return IcechunkPlace.parse(text).beside
    if (chained := re.fullmatch(r"zip::((?:file|local)://[^:]*|[^:]+)", text)) is not None:
        return _local(chained[1])
    return None if is_url(text) else Path(os.path.abspath(os.path.expanduser(text)))


def names_of(text: str) -> set[str]:
    """Names under which a job may refer to this place."""
    local = _local(text)
    if local is not None:
        return {str(local), os.path.realpath(local)}
    return {redact(text).rstrip("/")}
