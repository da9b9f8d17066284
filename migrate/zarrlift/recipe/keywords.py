"""The tables of `options` as types of keywords; written by its test, test_keywords.py."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TypedDict

from zarrstack.core.json_text import JSONObject

from ..core.data_types.v3 import DataType
from ..storage.open_storage import Place
from .changes import (
    Attributes,
    Casting,
    Endian,
    IndexLocation,
    KeyEncodingName,
    Multiscale,
    Objects,
    OmeVersion,
    Order,
    Separator,
    ShardIndexCodec,
    ZeroFill,
)
from .options import Axes, ExecutorChoice, Format, Link, PathText, StorageOptions, VerifyLevel
from .parsing import ShardRequest
from .recipe import CodecForms, RequiredModel


class ReadingKeywords(TypedDict, total=False):
    """How an archive is read; a job stores it, so that all its runs read in the same way."""

    follow_links: bool
    axes: Axes | None
    allow_fallback: bool
    max_document_size: int


class DescribingKeywords(ReadingKeywords, total=False):
    """How an archive is described."""

    format: Format | None


class RequestKeywords(DescribingKeywords, total=False):
    """What is asked for one archive besides its places and its recipe; a batch stores it for each."""

    in_place: bool
    source_through: str | None
    dest_through: str | None
    link: Link
    overwrite: bool
    verify: VerifyLevel


class SourceOptionsKeywords(TypedDict, total=False):
    """How a source is opened."""

    storage_options: StorageOptions


class PlacesKeywords(SourceOptionsKeywords, total=False):
    """How the places of a migration are opened; nothing stores it, since it may be secret."""

    dest_storage_options: StorageOptions


class JobPlaceKeywords(TypedDict, total=False):
    """Where the job file is."""

    job: PathText | None


class MovedKeywords(TypedDict, total=False):
    """Where the places of a job are now."""

    source: Place | None
    destination: Place | None


class ExecutingKeywords(TypedDict, total=False):
    """What runs the work."""

    workers: int | None
    executor: ExecutorChoice | None
    bwlimit: str | float | None


class TakingOverKeywords(TypedDict, total=False):
    """Whose place a job writes to."""

    take_over: bool


class RunningKeywords(ExecutingKeywords, TakingOverKeywords, total=False):
    """How a job is run."""

    fsync: bool
    no_list: bool


class WatchingKeywords(TypedDict, total=False):
    """What is written of a run for those who watch it."""

    log: PathText | None


class UpdatingKeywords(TypedDict, total=False):
    """What an update may do to a result."""

    delete: bool
    force: bool


class RecipeKeywords(TypedDict, total=False):
    """A recipe for all arrays, and of the whole archive; None is what the recipe has."""

    codecs: CodecForms | None
    dtype: str | JSONObject | DataType | None
    casting: Casting | None
    endian: Endian | None
    order: Order | None
    key_encoding: KeyEncodingName | None
    separator: Separator | None
    chunks: str | Sequence[int] | Mapping[str, int] | None
    shards: str | ShardRequest | Sequence[int] | Mapping[str, int] | None
    shard_index: ShardIndexCodec | None
    shard_index_location: IndexLocation | None
    drop_empty: bool | None
    objects: Objects | None
    allow_pickle: bool | None
    zero_fill: ZeroFill | None
    attributes: Attributes | None
    conventions: str | Sequence[str | type] | None
    multiscale: Multiscale | None
    ome: OmeVersion | None
    memory: str | int | None
    include: str | Sequence[str] | None
    exclude: str | Sequence[str] | None
    consolidate: bool | None
    model: str | os.PathLike[str] | RequiredModel | None
