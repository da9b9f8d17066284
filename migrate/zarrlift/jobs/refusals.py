"""What a job refuses of its places: to write into its source or over what is there, and several archives.

One directory may have several paths: by links, by bind mounts, or because a file system is mounted twice.
Links are resolved. Directories have a device and a number, and Linux lists the directory that each mount
shows, which tells of bind mounts. What neither shows (one server mounted twice, overlayfs) is detected by the
claim of the destination: if it appears in the source, the destination is there.
"""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePath, PurePosixPath
from typing import Final

from zarrstack.core.errors import UsageError
from zarrstack.core.paths import parents
from zarrstack.system.this import system

from ..archive.nodes import Archive, GroupNode
from ..core.problems import command
from ..core.units import count_text, quoted
from ..errors import JobError
from ..planning.plans import Plan
from ..recipe.options import Format
from ..storage.base import Storage
from ..storage.local.files import existing_directory, may_create_in, storage_error
from ..storage.local.partial_files import may_link_in, not_held
from ..storage.local.storage import LocalStorage
from ..storage.open_storage import is_url
from .ledger.last_run import last_run
from .ledger.ledger import Job
from .overwrite import not_yet_aside

_MOUNTS: Final = "/proc/self/mountinfo"
_SHOWN: Final = 5
"""Maximum number of names in a message."""
_ESCAPED: Final = re.compile(r"\\([0-7]{3})")


def refuse_nested(source: Storage, destination: Storage) -> None:
    """Raise UsageError if one of the places is the other one, or in it."""
    if not isinstance(source, LocalStorage) or not isinstance(destination, LocalStorage):
        if source.url == destination.url:
            raise UsageError("source and destination are the same place", found=source.url)
        return
    first, second = (Path(os.path.realpath(storage.root)) for storage in (source, destination))
    below_mounts = [_below_mount(path) for path in (first, second)]
    one, other = _identity(first), _identity(second)
    if first == second or (one is not None and one == other) or below_mounts[0] == below_mounts[1]:
        raise _same(first, second)
    if _is_above(first, second) or _is_above(*below_mounts):
        raise _inside("destination", second, "source", first)
    if _is_above(second, first) or _is_above(*reversed(below_mounts)):
        raise _inside("source", first, "destination", second)


def refuse_claim_in_source(source: Storage, destination: Storage, claim: Path | None) -> None:
    """Raise UsageError if the claim of the destination, which was just made, is in the source or above it.

    `claim` is its file; None if the destination is not a directory.
    """
    if claim is None or not isinstance(source, LocalStorage) or not isinstance(destination, LocalStorage):
        return
    first, second = (Path(os.path.realpath(storage.root)) for storage in (source, destination))
    parts = claim.parts
    # The source may be any directory above the claim, under another name.
    for start in range(1, len(parts)):
        if _is_same_file(first.joinpath(*parts[start:]), claim):
            inside = _inside("destination", second, "source", first)
            raise _same(first, second) if claim.parent == second else inside
    for above in first.parents:
        if _is_same_file(above / claim.name, claim):
            root = above if claim.parent == second else above / second.name
            if root == first:
                raise _same(first, second)
            if root in first.parents:
                raise _inside("source", first, "destination", second)


def require_root(job: Job, place: Storage) -> None:
    """Raise JobError if the place of a job's result leads to another directory than before, or to none.

    A result moved together with the job file beside it is at the same place.
    """
    recorded, now = job.fact("root"), _root(place)
    if recorded is None or now is None or job.state == "undone":
        return
    folder, target, mount = json.loads(recorded)
    path = place.url
    is_there = now[0] in (folder, system.long_path(os.path.dirname(os.path.realpath(job.path))))
    if is_there and (now[1] == target or not_yet_aside(job, place)):
        run = last_run(job)
        if run is None or (run.moving is None and run.number == 1) or os.path.lexists(path):
            return
        if os.path.isdir(now[0]) and (now[0] != folder or os.path.ismount(mount)):
            return  # the result itself is gone, which is reported where it matters
        raise JobError(
            "the directory in which the destination was is gone, or its file system is not mounted",
            key=path,
            found=f"nothing at {now[0]}" if os.path.ismount(mount) else f"nothing is mounted at {mount}",
            advice="Mount it or put it back; if it was deleted, delete the job file and migrate again.",
        )
    option = "--source" if job.header["in_place"] else "--destination"
    raise JobError(
        "the destination is not the directory in which the job began: its path leads elsewhere now",
        key=path,
        found=now[1] or os.path.join(now[0], os.path.basename(path)),
        expected=target or os.path.join(folder, os.path.basename(path)),
        advice="Put it back in its place. If the result was moved there, run: "
        + command("resume", str(job.path), option, path),
    )


def follow_links_in_place(place: Storage, *, follow_links: bool, in_place: bool) -> None:
    """Let directories of an archive that is migrated in place be links."""
    if in_place and isinstance(place, LocalStorage):
        place.opened.links = "followed" if follow_links else "inside"


def is_same_root(job: Job, place: Storage) -> bool:
    """Whether the place of a job's result leads to the same directory as before."""
    try:
        require_root(job, place)
    except JobError:
        return False
    return True


def root_to_record(place: Storage, *, overwrite: bool = False) -> str | None:
    """What a job records of the root of its result, for `require_root`; None for a place elsewhere.

    A link that is to be renamed (`overwrite`) is replaced by a directory.
    """
    root = _root(place)
    if root is None:
        return None
    mount = root[0]
    while not os.path.ismount(mount) and mount != os.path.dirname(mount):
        mount = os.path.dirname(mount)
    return json.dumps((root[0], "" if overwrite else root[1], mount))


def _root(place: Storage) -> tuple[str, str] | None:
    """The real path of the directory that has the name of a root, and the target of a root that is a link."""
    if not isinstance(place, LocalStorage):
        return None
    folder = place.opened.real_folder
    is_link = place.real != os.path.join(folder, place.root.name)
    return folder, place.real if is_link else ""


def _same(source: Path, destination: Path) -> UsageError:
    return UsageError(
        "source and destination are the same place",
        found=str(source) if source == destination else f"{source} and {destination}",
        advice="Use --in-place to migrate in place.",
    )


def _inside(inner: str, path: Path, outer: str, above: Path) -> UsageError:
    return UsageError(
        f"the {inner} is inside the {outer}", found=f"{path} in {above}", expected="two separate locations"
    )


def _is_same_file(path: Path, claim: Path) -> bool:
    """Whether a path has the claim, of which no two are equal: each contains a random token."""
    try:
        return path.read_bytes() == claim.read_bytes() != b""
    except OSError:
        return False


def _identity(path: Path) -> tuple[int, int] | None:
    """Device and number of a directory; None if it is absent, or if its file system has no numbers."""
    try:
        facts = os.stat(path)
    except OSError:
        return None
    return (facts.st_dev, facts.st_ino) if facts.st_ino else None


def _is_above(upper: PurePath, lower: PurePath) -> bool:
    if upper in lower.parents:
        return True
    if not isinstance(upper, Path) or not isinstance(lower, Path):
        return False
    identity = _identity(upper)
    return identity is not None and any(_identity(parent) == identity for parent in lower.parents)


def mounts() -> Iterator[tuple[str, str, str, str]]:
    """(mount point, device, directory of its file system, type of that) of each mount, where they are known.

    Linux alone lists them (proc_pid_mountinfo(5)).
    """
    try:
        lines = Path(_MOUNTS).read_text("utf-8", "surrogateescape").splitlines()
    except OSError:
        return
    for line in lines:
        own, _, kind = line.partition(" - ")
        if len(fields := own.split(" ")[2:5]) == 3:
            device, root, point = fields
            yield _unescaped(point), device, _unescaped(root), kind.split(" ", 1)[0]


def _unescaped(text: str) -> str:
    """A path with the spaces and other characters that the list of mounts escapes."""
    return _ESCAPED.sub(lambda match: chr(int(match[1], 8)), text)


def _below_mount(path: Path) -> PurePath:
    """The device of a path and the path in its file system; without a list of mounts, the path."""
    by_point = {Path(point): (device, root) for point, device, root, _ in mounts()}
    for point in (path, *path.parents):
        if point in by_point:
            device, root = by_point[point]
            return PurePosixPath(device, *PurePosixPath(root).parts[1:]) / path.relative_to(point)
    return path


def refuse_closed(destination: Storage) -> None:
    """Raise StorageError, before a job is made, if nothing can be created at the destination."""
    if isinstance(destination, LocalStorage) and not may_create_in(
        existing_directory(Path(destination.real))
    ):
        denied = PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        raise storage_error("cannot write to the destination", destination.url, denied)


def refuse_without_links(source: Storage, destination: Storage) -> None:
    """Raise UsageError, before a job is made, if no file of one can be a hard link to a file of the other."""
    if not isinstance(source, LocalStorage) or not isinstance(destination, LocalStorage):
        return
    place = existing_directory(Path(destination.real))
    if os.stat(source.real).st_dev != os.stat(place).st_dev:
        reason = "source and destination are on different file systems"
    elif not may_link_in(place):
        reason = f"the file system of {place} has no hard links"
    else:
        return
    raise UsageError(f"chunks cannot be hard links: {reason}", advice="Omit --link hard.")


def refuse_names(paths: Iterable[str], destination: Storage) -> None:
    """Raise UsageError, before a job is made, if a local destination cannot hold the names of these nodes."""
    if not isinstance(destination, LocalStorage):
        return
    place = existing_directory(Path(destination.real))
    try:
        wrong = [f"/{path} ({reason})" for path, reason in not_held(place, paths)]
    except OSError:  # reported when something is written
        return
    if wrong:
        some = ", ".join(wrong[:_SHOWN]) + (
            f" and {len(wrong) - _SHOWN:,} more" if len(wrong) > _SHOWN else ""
        )
        raise UsageError(
            f"the file system of {place} cannot hold the names of {count_text(len(wrong), 'node')}",
            found=some,
            advice="Choose another place, exclude these nodes (--exclude), or rename them in the source.",
        )


def refuse_existing(destination: Storage, *, overwrite: bool = False) -> None:
    """Raise UsageError unless the destination is absent, an empty directory, or may be set aside."""
    local = isinstance(destination, LocalStorage)
    if (overwrite and local) or destination.is_empty():
        return
    if overwrite:
        raise UsageError(
            f"an object store cannot be overwritten: {destination.url}",
            advice="Delete what is there, or choose another place.",
        )
    raise existing(destination.url, local=local)


def existing(url: str, *, local: bool = False) -> UsageError:
    """The error for a destination where something is."""
    return UsageError(
        f"the destination exists: {url}",
        advice=f"Choose another place{', or use --overwrite' if local else ', or delete what is there'}.",
    )


_ROOTS: Final = frozenset({"zarr2", "zarr3"})
"""Formats in which a group has a document; in others, and above other folders, the names of archives tell."""

_SEARCHED: Final = ("s3://", "gs://", "gcs://", "az://", "abfs://")
"""Stores that `zarrlift batch` searches; zip files and stores of one process are not."""


def refuse_several(
    archive: Archive, source: Storage, requested_format: Format | None, destination: str | None
) -> None:
    """Raise UsageError if a source, described as one archive, is a folder of archives.

    Not if the format was given, which merges them on purpose. `destination` is None in place.
    """
    if requested_format is not None or not _is_implicit(archive.nodes[0]):
        return
    if not isinstance(source, LocalStorage) and not source.url.startswith(_SEARCHED):
        return
    folders = {node.path for node in archive.nodes if _is_implicit(node)}
    paths = [node.path for node in archive.nodes if node.path not in folders]
    roots = [path for path in paths if folders.issuperset(parents(path))]
    if len(roots) < 2:
        return
    from ..formats.search import NAMED, is_tree

    if not all(map(NAMED.search, roots)) and (archive.format not in _ROOTS or "/" in "".join(roots)):
        return
    if not is_tree(source.url, source):
        return
    to = "--in-place"
    if destination is not None:
        slash = "/" if is_url(destination) else os.sep
        to = f"--to {quoted(destination.rstrip(slash) + slash + '{relative}.zarr')}"
    raise UsageError(
        "a folder of several archives is not one archive",
        key=source.url,
        found=", ".join(roots[:3]) + (", ..." if len(roots) > 3 else ""),
        advice=f"To migrate each: zarrlift batch run {quoted(source.url)} {to}. "
        f"To merge them into one, with a root group that none of them has: --from {archive.format}.",
    )


def _is_implicit(node: object) -> bool:
    return isinstance(node, GroupNode) and node.implicit


def refuse_unmet(plan: Plan) -> None:
    """Raise UsageError if the result would not conform to the recipe's model."""
    if plan.recipe.model is not None:
        from ..models import requirement

        requirement.refuse_unmet(plan)


def refuse_empty(plan: Plan) -> None:
    """Raise UsageError if a plan has no nodes."""
    if not plan.arrays and not plan.groups and not plan.refusals:
        # A pattern that matches nothing, if there is one, has its own advice.
        cause = next((item for item in plan.problems if item.kind == "recipe"), None)
        raise UsageError(
            "there is nothing to migrate",
            key=plan.source,
            found=None if cause is None else cause.message,
            advice="Check --include and --exclude." if cause is None else cause.advice,
        )
