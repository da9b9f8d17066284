"""Metadata documents of a 2022-draft archive, and their translation to and from `zarr.json`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from ...base.array_documents import key_of
from ...core.draft_v3.array import describe_array
from ...core.draft_v3.nodes import (
    ENTRY,
    Dialect,
    DraftEntryPoint,
    bad_node_name,
    read_entry,
    read_group,
    write_entry,
    write_group,
)
from ...core.draft_v3.ratified import draft_document, from_ratified, refusal, to_ratified
from ...core.errors import MetadataError, UnsupportedError, ZarrstackError
from ...core.json_text import JSONObject, document, excerpt
from ...core.zarr_v2.chain import read_chain
from .keys import DraftArchive

DIALECTS: Final = {"text": Dialect.TEXT, "zarr-python": Dialect.ZARR_PYTHON}
_GROUP_MEMBERS: Final = frozenset({"zarr_format", "node_type", "attributes", "consolidated_metadata"})


def parse(content: bytes, key: str) -> JSONObject:
    """Parse a JSON object; MetadataError for anything else."""
    try:
        data = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise MetadataError("a document is not JSON", key=key, found=str(error)[:200]) from None
    if not isinstance(data, dict):
        raise MetadataError("a document is not a JSON object", key=key, found=excerpt(data))
    return data


def entry_of(content: bytes) -> DraftEntryPoint:
    """Parse an entry point; raises an error that names its key if it is invalid or not a draft's."""
    try:
        data = parse(content, ENTRY)
        if "node_type" in data:
            raise UnsupportedError(
                "this is an archive of Zarr v3 as ratified, not of the 2022 draft",
                found=excerpt(data.get("zarr_format")),
                advice="zarr-python 3 reads it without this layer.",
            )
        return read_entry(data)
    except ZarrstackError as error:
        raise error.at(key=ENTRY) from None


def entry_bytes(dialect: Dialect) -> bytes:
    """Serialise the entry point of a new archive."""
    return document(write_entry(DraftEntryPoint(dialect=dialect)))


@dataclass(frozen=True, slots=True)
class DraftDocuments:
    """Translation of one archive's documents; errors name the node and the key."""

    archive: DraftArchive
    allow_fallback: bool = False

    @property
    def dialect(self) -> Dialect:
        """The archive's dialect."""
        return self.archive.dialect

    def shown_array(self, content: bytes, path: str) -> bytes:
        """Translate an array's document to its `zarr.json`."""
        key = self.dialect.array_key(path)
        try:
            self._check_name(path)
            array, problems = describe_array(
                parse(content, key),
                self.dialect,
                allow_fallback=self.allow_fallback,
                read_filtered=read_chain,
            )
            if array is None:
                raise refusal(problems)
            return document(to_ratified(array))
        except ZarrstackError as error:
            raise error.at(node=path, key=key) from None

    def shown_group(self, content: bytes | None, path: str) -> bytes:
        """Translate a group's document to its `zarr.json`; None stands for an implicit group."""
        key = self.dialect.group_key(path)
        try:
            self._check_name(path)
            attributes = {} if content is None else read_group(parse(content, key))
            return document({"zarr_format": 3, "node_type": "group", "attributes": attributes})
        except ZarrstackError as error:
            raise error.at(node=path, key=key) from None

    def kept(self, data: JSONObject, path: str, old: bytes | None) -> bytes:
        """Translate a `zarr.json` to a document; `old` is the array's existing document."""
        try:
            self._check_name(path)
            if data.get("zarr_format") != 3:
                raise UnsupportedError(
                    "only documents of Zarr v3 can be written", found=excerpt(data.get("zarr_format"))
                )
            if data["node_type"] == "group":
                return document(write_group(self._group(data)))
            if data["node_type"] != "array":
                raise MetadataError(
                    "unknown node_type", found=excerpt(data["node_type"]), expected="array or group"
                )
            return document(
                draft_document(
                    from_ratified(data),
                    self.dialect,
                    None if old is None else self._old(old),
                    allow_fallback=self.allow_fallback,
                    read_filtered=read_chain,
                )
            )
        except ZarrstackError as error:
            raise error.at(node=path, key=key_of(path)) from None

    def _old(self, content: bytes) -> JSONObject | None:
        try:
            return parse(content, "")
        except MetadataError:
            return None  # an invalid document is replaced

    def _group(self, data: JSONObject) -> JSONObject:
        unknown = sorted(data.keys() - _GROUP_MEMBERS)
        if data.get("consolidated_metadata") is not None:
            unknown.append("consolidated_metadata")
        if unknown:
            raise UnsupportedError("groups of the 2022 draft have only attributes", found=excerpt(unknown))
        attributes = data.get("attributes")
        if attributes is not None and not isinstance(attributes, dict):
            raise MetadataError("attributes must be an object", found=excerpt(attributes), expected="{...}")
        return attributes or {}

    def _check_name(self, path: str) -> None:
        if not path:
            return
        for name in path.split("/"):
            if (reason := bad_node_name(name)) is not None:
                raise UnsupportedError(reason, found=excerpt(name))
