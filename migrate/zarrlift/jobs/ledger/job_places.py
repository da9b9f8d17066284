"""Where job files are, and the places of a job: as its file records them, and where they are now.

A job beside its result does not store the result's name: the result is what stands beside the file, under its
name without the suffix, so both can be copied, renamed and moved together. Any other job stores the place of
its result, and the path of its own file (`home`), since a copy of that file would change the same result.

A source is stored as an absolute place and relative to the file. Of two that exist, the relative one is tried
first (`source_of`, in `resume/relocate.py`).
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from zarrstack.core.errors import UsageError
from zarrstack.core.json_text import JSONObject
from zarrstack.core.similar_names import did_you_mean

from ...core.problems import command
from ...errors import JobError
from ...recipe.options import JobPlace, PathText
from ...storage.local.files import exists, is_file
from ...storage.local.own_names import sibling, with_suffix
from ...storage.open_storage import is_url, path_of_url
from ...storage.redact import redact
from .database import SQLITE

SUFFIX: Final = ".zarrlift.db"
"""Of the file of a job beside its result."""
_FILE_URL: Final = re.compile(r"(?P<scheme>file|local)://(?P<path>/(?:[A-Za-z]:)?[^:]*)")
_CHAINED: Final = re.compile(r"zip::(?P<place>.+)", re.DOTALL)
_ICECHUNK: Final = re.compile(r"icechunk://(?P<path>(?:/|[A-Za-z]:\\|\\\\).*)", re.DOTALL)


class Source(NamedTuple):
    """A place at which the source of a job may be."""

    url: str
    """As its plan names it."""
    place: str
    """As it is opened."""


def local_path(place: str) -> str | None:
    """The local path of a recorded place; None for a place in a store."""
    if (chained := _CHAINED.fullmatch(place)) is not None:
        return local_path(chained["place"])
    if (repository := _ICECHUNK.fullmatch(place)) is not None:
        return repository["path"]
    if _FILE_URL.fullmatch(place):
        return path_of_url(place)
    is_absolute = os.path.isabs(place) or place.startswith("/")
    return place if is_absolute and not is_url(place) else None


def with_local_path(place: str, path: str) -> str:
    """The same kind of place at another local path."""
    if (chained := _CHAINED.fullmatch(place)) is not None:
        return "zip::" + with_local_path(chained["place"], path)
    if _ICECHUNK.fullmatch(place):
        return f"icechunk://{path}"
    if (url := _FILE_URL.fullmatch(place)) is not None:
        drive, path = os.path.splitdrive(path.replace(os.sep, "/"))
        path = drive + (quote(path) if url["scheme"] == "file" else path)
        return f"{url['scheme']}://{path if path.startswith('/') else f'/{path}'}"
    return path


def to_record(header: JSONObject, source_place: str, file: Path) -> tuple[JSONObject, dict[str, str | None]]:
    """The header of a job as it is stored in a file, and the notes on its places."""
    result = local_path(header["destination"])
    beside = result is not None and _is_beside(result, file)
    local = local_path(source_place)
    relative = None
    if local is not None and not header["in_place"]:
        with suppress(ValueError):  # on another drive of Windows
            relative = os.path.relpath(_real(local), os.path.dirname(_real(file))).replace(os.sep, "/")
    notes = {
        "beside": _digest(file) if beside else None,
        "home": None if beside else _real(file),
        "source_place": source_place,
        "source_relative": relative,
    }
    if beside and result is not None:
        header = {**header, "destination": header["destination"].removesuffix(result)}
        if header["in_place"]:
            header["source"] = header["destination"]
            notes["source_place"] = None
    return header, notes


def located(header: JSONObject, notes: Mapping[str, Any], file: Path) -> JSONObject:
    """A stored header with the places where they are now."""
    if "beside" in notes:
        folder, name = os.path.split(os.path.abspath(file))
        name = name.removesuffix(SUFFIX) if name.endswith(SUFFIX) else os.path.splitext(name)[0]
        header["destination"] += os.path.join(folder, name)
        if header["in_place"]:
            header["source"] = header["destination"]
    if not header["in_place"]:
        header["source"] = existing(sources(header, notes, file))[0].url
    return header


def sources(header: JSONObject, notes: Mapping[str, Any], file: Path) -> list[Source]:
    """Where a source may be: relative to the file, if that is another place, and where it was."""
    recorded = Source(header["source"], notes.get("source_place") or header["source"])
    local, relative = local_path(recorded.place), notes.get("source_relative")
    if local is None or relative is None:
        return [recorded]
    path = os.path.normpath(os.path.join(os.path.dirname(_real(file)), relative))
    if is_same_path(path, local):
        return [recorded]
    url = path + recorded.url.removeprefix(local) if recorded.url.startswith(local) else recorded.url
    return [Source(url, with_local_path(recorded.place, path)), recorded]


def existing(places: list[Source]) -> list[Source]:
    """Those that exist; the last one if none does."""
    if len(places) == 1:
        return places  # without a look
    return [each for each in places if _exists(each.place)] or places[-1:]


def has_moved(notes: Mapping[str, Any], file: Path) -> bool:
    """Whether the file was moved or copied, or has another path, since its places were recorded."""
    return notes.get("beside") not in (None, _digest(file))


def is_elsewhere(notes: Mapping[str, Any], file: Path) -> bool:
    """Whether the file of a job apart from its result is not where it recorded its path.

    So is a file that was beside its result, and has another suffix now. Links and other mounts lead to the
    recorded directory entry too. A hard link is another entry: `cp -al` makes copies of them.
    """
    home = notes.get("home")
    if home is None:
        return not file.name.endswith(SUFFIX)
    if home == _real(file):
        return False
    try:
        if not os.path.samefile(home, file):
            return True
        folders = os.path.dirname(home), os.path.dirname(_real(file))
        same_name = os.path.basename(home) == os.path.basename(_real(file))
        return not (same_name and os.path.samefile(*folders)) and os.stat(file).st_nlink > 1
    except OSError:
        return True


def is_same_path(one: str, other: str) -> bool:
    """Whether two local paths are one place; other names of it are links and mounts."""
    if one == other or os.path.realpath(one) == os.path.realpath(other):
        return True
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False


def _is_beside(result: str, file: Path) -> bool:
    """Whether a file is the job file beside a result whose name it has as a whole: long names are cut."""
    if os.path.basename(result) + SUFFIX != file.name or sibling(Path(result), SUFFIX).name != file.name:
        return False
    return os.path.dirname(_real(result)) == os.path.dirname(_real(file))


def _real(path: str | os.PathLike[str]) -> str:
    """The path of a directory entry, without links in the directories above it."""
    folder, name = os.path.split(os.path.abspath(path))
    return os.path.join(os.path.realpath(folder), name)


def _digest(file: Path) -> str:
    """What tells that a file has its path still, without its name."""
    return hashlib.blake2b(os.fsencode(_real(file)), digest_size=8).hexdigest()


def _exists(place: str) -> bool:
    """Whether anything is at a place, in a container too; True if that cannot be examined."""
    path = local_path(place)
    while path is not None:
        try:
            os.lstat(path)
        except NotADirectoryError:
            path = os.path.dirname(path)  # perhaps an archive in a file
            if os.path.isfile(path):
                return True
        except FileNotFoundError:
            return False
        except OSError:
            return True
        else:
            return True
    return False


LIST_SUFFIX: Final = ".zarrlift.jsonl"
"""Of the list of a batch that is written beside the results."""
_LISTS: Final = (".jsonl", ".ndjson", ".csv")
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


def is_list(target: PathText) -> bool:
    """Whether a path is that of a list of archives, each of which has a job, by its suffix."""
    text = os.fspath(target)
    return text.lower().endswith(_LISTS) and "://" not in text and not os.path.isdir(text)


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
    if is_list(text) and is_file(path):
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
    """Advice that names the list of this path, or the job or list of a folder that contains it, if any."""
    for folder in (local, *local.parents[:-1]):
        if folder != local and is_file(sibling(folder, SUFFIX)):
            again = command("status", str(folder))
            return f"There is a job for {folder}, which contains it. Name that folder: {again}"
        if is_file(path := sibling(folder, LIST_SUFFIX)):
            return f"There is a list of archives for {folder}. Name the list: {command('status', str(path))}"
    return None


def _what(path: Path) -> str:
    """Describes a file that is not a job file."""
    from zipfile import is_zipfile  # takes time at every start

    from ...storage.containers.table import HEAD
    from ...storage.not_an_archive import known_file

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
        return Path(path_of_url(text))
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
