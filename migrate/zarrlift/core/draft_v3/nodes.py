"""The 2022 draft of Zarr v3: dialects, entry point, and mapping of metadata keys. Pure.

*text* is the editor's draft of May 2022 with its changes up to that December
(https://github.com/zarr-developers/zarr-specs/blob/71b92bb/docs/core/v3.0.rst): sections "Entry point
metadata", "Group metadata" and "Storage keys". *zarr-python* is the format that zarr-python 2.13 to 2.18
wrote under `ZARR_V3_EXPERIMENTAL_API=1` (observed with 2.18.7), and before it zarrita of 2020 and GDAL 3.4:
an earlier state of the text, with `root` in every key. Documents of both are read by the same code, because
members with different meanings have different names; the dialect matters for keys and for filters.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final, Literal, NamedTuple

from zarrstack.core.errors import MetadataError, Problem, UnsupportedError
from zarrstack.core.json_text import JSON, JSONObject, excerpt

from ..problems import warning

ENTRY: Final = "zarr.json"
"""Key of the entry point."""
CONSOLIDATED: Final = "meta/root/consolidated/.zmetadata"
"""Key of zarr-python 2's consolidated metadata; `meta/root/consolidated` is not a node."""

_FORMAT: Final = re.compile(r"https?://purl\.org/zarr/spec/(protocol/)?core/([0-9]{1,9})\.([0-9]{1,9})")
_NODE_NAME: Final = re.compile(r"[a-zA-Z0-9_.-]+")
_ENTRY_MEMBERS: Final = ("zarr_format", "metadata_encoding", "metadata_key_suffix", "extensions")


# ----- dialects


class NodeKey(NamedTuple):
    """The node named by a metadata key."""

    path: str
    """"" for the root, otherwise names joined by "/"."""
    kind: Literal["array", "group"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """The form of keys."""

    TEXT: ClassVar[Dialect]
    ZARR_PYTHON: ClassVar[Dialect]

    name: Literal["text", "zarr-python"]
    suffix: str = ".json"
    """Suffix of every metadata key except the entry point's."""

    @property
    def scalar_key(self) -> str:
        """The key of the only chunk of a 0-d array: `c` in the text (and zarrita), `c0` in zarr-python."""
        return "c" if self.name == "text" else "c0"

    def key(self, path: str, kind: Literal["array", "group"]) -> str:
        """The metadata key of an array or explicit group, such as `meta/foo/baz.array.json`."""
        if self.name == "text" and not path:
            return f"meta/{kind}{self.suffix}"
        return f"{self.below(path)[:-1]}.{kind}{self.suffix}"

    def below(self, path: str) -> str:
        """The prefix of the metadata keys of everything below a group; ends with "/"."""
        return self._under("meta", path)

    def data(self, path: str) -> str:
        """The prefix of an array's chunk keys, and of all chunks below a group; ends with "/"."""
        return self._under("data", path)

    def node(self, key: str) -> NodeKey | None:
        """The node named by a metadata key, or None. Inverse of `key`."""
        if not key.startswith("meta/") or not key.endswith(self.suffix):
            return None
        body = key[len("meta/") : len(key) - len(self.suffix)]
        for kind in ("array", "group"):
            if self.name == "text" and body == kind:
                return NodeKey("", kind)
            if body.endswith(f".{kind}"):
                path = body[: -len(kind) - 1]
                if self.name == "zarr-python":
                    if path == "root":
                        return NodeKey("", kind)
                    if not path.startswith("root/"):
                        return None
                    path = path[len("root/") :]
                return NodeKey(path, kind) if all(path.split("/")) else None
        return None

    def _under(self, space: str, path: str) -> str:
        parts = [space, *(("root",) if self.name == "zarr-python" else ()), *((path,) if path else ())]
        return "/".join(parts) + "/"


Dialect.TEXT = Dialect(name="text")
Dialect.ZARR_PYTHON = Dialect(name="zarr-python")


def bad_node_name(name: str) -> str | None:
    """Why the draft does not allow a node's name, or None (section "Node names")."""
    if not _NODE_NAME.fullmatch(name):
        return "a node's name is made of a-z, A-Z, 0-9 and -_." if name else "a node has an empty name"
    return None if name.strip(".") else "a node's name is made of periods only"


# ----- the entry point


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftEntryPoint:
    """The content of a draft's `zarr.json`."""

    dialect: Dialect
    extensions: tuple[JSONObject, ...] = ()
    """Extensions that may be ignored; others are refused."""
    problems: tuple[Problem, ...] = field(default=(), compare=False)
    """Notes and warnings, no refusals."""


def is_entry(document: Mapping[str, JSON]) -> bool:
    """Whether a `zarr.json` is a draft's: its `zarr_format` is text, the ratified one's a number."""
    return isinstance(document.get("zarr_format"), str)


def read_entry(document: Mapping[str, JSON]) -> DraftEntryPoint:
    """Parse the entry point of a hierarchy, of either dialect.

    UnsupportedError for another major version, a metadata encoding other than JSON, and extensions that must
    be understood; MetadataError for malformed documents. Unknown members are noted, because later minor
    versions may add some (section "Entry point metadata").
    """
    version = document.get("zarr_format")
    match = _FORMAT.fullmatch(version) if isinstance(version, str) else None
    if match is None:
        raise MetadataError(
            "zarr_format is not a version of the Zarr core specification",
            found=excerpt(version),
            expected='"https://purl.org/zarr/spec/core/3.0"',
        )
    if int(match[2]) != 3:
        raise UnsupportedError(
            "another major version of the Zarr core specification", found=match[0], expected="3.x"
        )
    dialect = _dialect(document, by_protocol=match[1] is not None)
    extensions, problems = read_extensions(document.get("extensions", []))
    if unknown := sorted(document.keys() - {*_ENTRY_MEMBERS}):
        message = "members of the entry point that the specification does not define are ignored"
        problems.append(warning("metadata", message, found=excerpt(unknown)))
    return DraftEntryPoint(dialect=dialect, extensions=extensions, problems=tuple(problems))


def write_entry(entry: DraftEntryPoint) -> JSONObject:
    """The entry point in its dialect; the inverse of `read_entry`."""
    suffix = entry.dialect.suffix
    if entry.dialect.name == "text":
        return {
            "zarr_format": "https://purl.org/zarr/spec/core/3.0",
            "metadata_encoding": {"type": "json", "metadata_key_suffix": suffix},
            "extensions": list(entry.extensions),
        }
    protocol = "https://purl.org/zarr/spec/protocol/core/3.0"
    return {
        "extensions": list(entry.extensions),
        "metadata_encoding": protocol,
        "metadata_key_suffix": suffix,
        "zarr_format": protocol,
    }


def _dialect(document: Mapping[str, JSON], *, by_protocol: bool) -> Dialect:
    encoding = document.get("metadata_encoding")
    if isinstance(encoding, dict):
        if "extension" in encoding or encoding.get("type") != "json":
            raise UnsupportedError(
                "metadata documents in other formats than JSON are not supported",
                found=excerpt(encoding),
                expected="json",
            )
        if unknown := encoding.keys() - {"type", "metadata_key_suffix"}:
            raise MetadataError("unknown members in metadata_encoding", found=excerpt(sorted(unknown)))
        return Dialect(name="text", suffix=_suffix(encoding))
    # In the earlier text the encoding was the URI of the defining specification: the text itself.
    if not isinstance(encoding, str) or not _FORMAT.fullmatch(encoding):
        raise UnsupportedError(
            "unknown metadata_encoding", found=excerpt(encoding), expected='{"type": "json", ...}'
        )
    if not by_protocol:
        raise MetadataError(
            "the entry point mixes two versions of the draft",
            found=excerpt({name: document[name] for name in ("zarr_format", "metadata_encoding")}),
            expected="an object as metadata_encoding",
        )
    return Dialect(name="zarr-python", suffix=_suffix(document))


def _suffix(data: Mapping[str, JSON]) -> str:
    suffix = data.get("metadata_key_suffix", ".json")
    if not isinstance(suffix, str) or not re.fullmatch(r"[a-zA-Z0-9._-]{0,64}", suffix):
        raise MetadataError("bad metadata_key_suffix", found=excerpt(suffix), expected='".json"')
    return suffix


# ----- common parts of documents


def read_extensions(data: JSON) -> tuple[tuple[JSONObject, ...], list[Problem]]:
    """The `extensions` that may be ignored, with a note for each; for entry points and arrays.

    UnsupportedError, by name, for one that must be understood: none is supported. A missing `must_understand`
    counts as true (section "extensions": each object must contain it).
    """
    if not isinstance(data, list):
        raise MetadataError("extensions must be a list", found=excerpt(data), expected="[...]")
    problems = []
    for item in data:
        if not isinstance(item, dict) or not isinstance(item.get("extension"), str):
            raise MetadataError(
                "an extension must be an object with a URI",
                found=excerpt(item),
                expected='{"extension": ...}',
            )
        if item.get("must_understand", True) is not False:
            raise UnsupportedError(
                f"the extension {item['extension']} must be understood, but is unknown", found=excerpt(item)
            )
        message = f"the unknown extension {item['extension']} is ignored, as it allows"
        problems.append(warning("unsupported", message, found=excerpt(item)))
    return tuple(data), problems


def read_group(document: Mapping[str, JSON]) -> JSONObject:
    """The attributes of an explicit group. MetadataError for other members, which are reserved.

    `extensions`, which zarrita and GDAL 3.5 write from an earlier state of the text, are allowed if none must
    be understood.
    """
    require_known(document, ("attributes", "extensions"), "a group")
    read_extensions(document.get("extensions", []))
    return read_attributes(document)


def read_attributes(document: Mapping[str, JSON]) -> JSONObject:
    """The `attributes` member, which is required. zarrita writes null for empty attributes."""
    attributes = document.get("attributes")
    if attributes is None and "attributes" in document:
        return {}
    if not isinstance(attributes, dict):
        found = excerpt(attributes) if "attributes" in document else "none"
        raise MetadataError("attributes must be an object", found=found, expected="{...}")
    return attributes


def require_known(document: Mapping[str, JSON], members: tuple[str, ...], what: str) -> None:
    """Raise MetadataError for members not in the draft ("must fail to open ... unknown fields")."""
    if unknown := sorted(document.keys() - {*members}):
        raise MetadataError(
            f"unknown members in the document of {what}", found=excerpt(unknown), expected=", ".join(members)
        )
