"""Opens an archive that consists of references, wherever it is stored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from zarrstack.core.errors import UsageError

from ..base import Storage
from ..containers.places import HEAD
from ..local.files import BadObjectError, ReadLimit
from ..redact import redact, secrets_of
from ..reference_options import OF_REFERENCES, AskedReferences
from ..remote.event_loop import run
from .document import MAX_DOCUMENT, ZSTD, read_document, too_large
from .index import Index
from .parquet import MAX_METADATA, METADATA, ParquetIndex, parsed
from .source import ReferenceSource
from .targets import Opener, Target, Targets, target_of

_DOCUMENT: Final = ReadLimit(MAX_DOCUMENT, "document")


def open_document(place: str, options: Mapping[str, Any] | None, opener: Opener) -> Storage:
    """The archive of a document of references at a URL or an absolute path.

    UsageError if there is no such document, MetadataError if it is invalid as a whole; bad references in it
    are errors of what they belong to.
    """
    targets = _targets(_home(place), options, opener)
    home = targets.home
    state = run(targets.state_now(home))
    try:
        content = None if state is None else run(targets.whole(home, _DOCUMENT, state.version))
    except BadObjectError:
        raise too_large() from None
    if content is None:
        raise UsageError(f"no such file or directory: {home.shown}")
    try:
        index = read_document(content)
    except UsageError as error:
        problem = error.problem
        message = problem.message
        if content.startswith(ZSTD) and ".json" not in home.shown:  # it may be anything
            from ..foreign_files import not_a_container

            raise not_a_container(home.shown, content[:HEAD]) from None
        raise UsageError(
            f"{home.shown} is {message}" if message.startswith(("not ", "a ")) else message,
            found=problem.found,
            expected=problem.expected,
            advice=problem.advice,
        ) from None
    index.check_keys()
    return _opened(index, targets, place, options)


def open_directory(folder: Storage, place: str, options: Mapping[str, Any] | None, opener: Opener) -> Storage:
    """The archive of references in Parquet at a URL or an absolute path, whose files are in `folder`.

    UsageError if there are none, MetadataError.
    """
    place = place.rstrip("/")
    targets = _targets(_home(place), options, opener, document=_home(f"{place}/{METADATA}"))
    run(targets.state_now(targets.document))
    index = ParquetIndex(folder, folder.get(METADATA, MAX_METADATA) or b"")
    return _opened(index, targets, place, options)


def as_given_to_fsspec(url: str, options: Mapping[str, Any] | None) -> tuple[str, dict[str, Any]]:
    """The place of the references of a `reference://` URL, and its `storage_options`.

    The place is the option `fo`, or chained to the URL; other options of fsspec's reference file system have
    names of ours, or are refused: UsageError.
    """
    others = dict(options or {})
    chained = url.partition("::")[2]
    place = others.pop("fo", None) or chained
    if not isinstance(place, str) or not place:
        raise UsageError(
            "reference:// names no references",
            found="no option fo" if not place else type(place).__name__,
            advice="Give the place of the references themselves: a JSON file, or a directory of Parquet.",
        )
    own = {name: others.pop(name) for name in OF_REFERENCES if name in others}
    target = others.pop("target_options", None) or others.pop("ref_storage_args", None) or {}
    if remote := others.pop("remote_options", None):
        own.setdefault("reference_options", remote)
    for name in ("target_protocol", "remote_protocol", "skip_instance_cache", "asynchronous", "lazy"):
        others.pop(name, None)
    if others:
        raise UsageError(
            "reference:// has options that zarrlift does not have",
            found=", ".join(sorted(others)),
            expected="fo, target_options, remote_options",
            advice="Give the place of the references themselves, with storage_options and reference_options.",
        )
    return place, {**target, **own}


def holds_references(folder: Storage) -> bool:
    """Whether a directory has references in Parquet; StorageError."""
    content = folder.get(METADATA, MAX_METADATA)
    return content is not None and parsed(content) is not None


def _home(place: str) -> Target:
    return target_of(place, Target("", "/"))


def _targets(
    home: Target, options: Mapping[str, Any] | None, opener: Opener, *, document: Target | None = None
) -> Targets:
    own, references = AskedReferences.split(options)
    return Targets(home, own, references, opener, document=document)


def _opened(index: Index, targets: Targets, place: str, options: Mapping[str, Any] | None) -> Storage:
    from ..source_store import source_storage

    secrets = secrets_of(options)
    source = ReferenceSource(index, targets)
    return source_storage(source, url=redact(place.rstrip("/"), secrets), secrets=secrets)
