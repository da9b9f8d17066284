"""The places of a job as its file records them, and where they are now.

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
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote, unquote, urlsplit

from zarrstack.core.json_text import JSONObject

from ...storage.local.sibling_names import sibling
from ...storage.open_storage import is_url

SUFFIX: Final = ".zarrlift.db"
"""Of the file of a job beside its result."""
_FILE_URL: Final = re.compile(r"(?P<scheme>file|local)://(?P<path>/[^:]*)")
_CHAINED: Final = re.compile(r"zip::(?P<place>.+)", re.DOTALL)
_ICECHUNK: Final = re.compile(r"icechunk://(?P<path>/.*)", re.DOTALL)


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
        return unquote(urlsplit(place).path)
    return place if os.path.isabs(place) and not is_url(place) else None


def with_local_path(place: str, path: str) -> str:
    """The same kind of place at another local path."""
    if (chained := _CHAINED.fullmatch(place)) is not None:
        return "zip::" + with_local_path(chained["place"], path)
    if _ICECHUNK.fullmatch(place):
        return f"icechunk://{path}"
    if (url := _FILE_URL.fullmatch(place)) is not None:
        return f"{url['scheme']}://{quote(path)}"
    return path


def to_record(header: JSONObject, source_place: str, file: Path) -> tuple[JSONObject, dict[str, str | None]]:
    """The header of a job as it is stored in a file, and the notes on its places."""
    result = local_path(header["destination"])
    beside = result is not None and _is_beside(result, file)
    local = local_path(source_place)
    relative = None
    if local is not None and not header["in_place"]:
        relative = os.path.relpath(_real(local), os.path.dirname(_real(file)))
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
