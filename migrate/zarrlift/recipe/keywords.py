"""The tables of `options` as types of keywords; written by its test, test_keywords.py."""

from __future__ import annotations

from typing import TypedDict

from ..storage.open_storage import Place
from .options import Axes, ExecutorChoice, Format, Link, PathText, StorageOptions, VerifyLevel


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
