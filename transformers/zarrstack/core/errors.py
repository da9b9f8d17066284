"""The error tree of both packages, and the record every error and warning carries.

A `Problem` says where something is wrong (node, key), what was found, what was
expected and what to do. Readers collect problems; code that cannot go on raises
a `ZarrstackError`, which holds one. `kind` strings are stable: machines match on
them, so they are never renamed. `KINDS` lists them:

    ZarrstackError
      metadata      MetadataError      a document is wrong: mend the archive, or exclude the node
      unsupported   UnsupportedError   valid, but beyond us or v3: exclude the node, or see the advice
      chunk         ChunkError         stored bytes are damaged: restore them, or exclude the node
      cast          CastError          a value does not fit the wanted type: choose another, or a casting
      storage       StorageError       reading or writing failed: mend the cause, then resume
      job           JobError           the job does not fit what is there: see the advice
      verification  VerificationError  source and destination differ: do not trust the destination
      usage         UsageError         the request makes no sense: change it

The built-in bases (ValueError for what is wrong with data or requests, RuntimeError for
what happened to storage or a job) serve callers who know nothing of this tree.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, ClassVar, Final, Literal, Self

Severity = Literal["note", "warning", "refusal"]
_LONGEST: Final = 1000
"""Characters of each text of a problem."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing to tell the user about an archive, with its place."""

    kind: str
    """Stable identifier, such as "metadata" or "chunk"."""
    message: str
    severity: Severity = "refusal"
    """"note" and "warning" let the node pass; "refusal" keeps it back."""
    node: str | None = None
    """Path of the node, "" for the root; None when no node is concerned."""
    key: str | None = None
    """Storage key, relative to the archive's root."""
    found: str | None = None
    expected: str | None = None
    advice: str | None = None

    def __post_init__(self) -> None:
        """Cut what is too long to read: a hostile document may have a fill value of a million numbers."""
        for name in ("message", "found", "expected", "advice"):
            text = getattr(self, name)
            if text is not None and len(text) > _LONGEST and not isinstance(text, Joined):
                object.__setattr__(self, name, text[:_LONGEST] + "...")

    def at(self, *, node: str | None = None, key: str | None = None) -> Problem:
        """The same problem with its place filled in where it was open."""
        return replace(
            self,
            node=self.node if self.node is not None else node,
            key=self.key if self.key is not None else key,
        )

    def to_json(self) -> dict[str, str]:
        """The fields that are set, for machines."""
        names = ("kind", "severity", "node", "key", "message", "found", "expected", "advice")
        pairs = ((name, getattr(self, name)) for name in names)
        return {name: value for name, value in pairs if value is not None}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Problem:
        """The inverse of `to_json`."""
        return cls(**data)

    def __str__(self) -> str:
        place = []
        if self.node is not None:
            place.append("/" + short(self.node))
        if self.key is not None:
            place.append(f"key {short(self.key)!r}")
        text = ", ".join(place) + ": " if place else ""
        text += self.message
        if self.found is not None:
            text += f"; found {self.found}"
        if self.expected is not None:
            text += f"; expected {self.expected}"
        if self.advice is not None:
            text += f". {self.advice}"
        return text


def any_refusal(problems: Iterable[Problem]) -> bool:
    """Whether one of some problems keeps its node back."""
    for problem in problems:  # noqa: SIM110 - mostly there is none, and `any` would make a generator
        if problem.severity == "refusal":
            return True
    return False


class Joined(str):
    """Several problems as one text: each of them is cut, and the list of them is not."""

    __slots__ = ()

    @classmethod
    def of(cls, problems: Iterable[object], *, before: str = "", after: str = "") -> Joined:
        """The problems, one after the other, between two texts of our own."""
        return cls(before + "; ".join(short(str(problem), _LONGEST) for problem in problems) + after)


def short(text: str, most: int = 400) -> str:
    """A path or another text as it is shown: one of many thousand characters is cut in the middle."""
    return text if len(text) <= most else f"{text[: most // 2]}...{text[-most // 2 :]}"


class ZarrstackError(Exception):
    """Base of every error this distribution raises on purpose.

    The arguments after `message` are the fields of `Problem`, and `problem` holds them.
    """

    kind: ClassVar[str] = "error"
    problem: Problem

    def __init__(
        self,
        message: str,
        *,
        node: str | None = None,
        key: str | None = None,
        found: str | None = None,
        expected: str | None = None,
        advice: str | None = None,
    ) -> None:
        super().__init__(message)
        self.problem = Problem(
            kind=self.kind,
            message=message,
            node=node,
            key=key,
            found=found,
            expected=expected,
            advice=advice,
        )

    def at(self, *, node: str | None = None, key: str | None = None) -> Self:
        """This error, its place filled in where it was open."""
        self.problem = self.problem.at(node=node, key=key)
        return self

    def __str__(self) -> str:
        return str(self.problem)

    def __reduce__(self) -> tuple[Any, ...]:
        # Errors cross process boundaries; keyword-only arguments need help to be pickled.
        return (_rebuild, (type(self), self.problem))


def _rebuild(cls: type[ZarrstackError], problem: Problem) -> ZarrstackError:
    error = cls(problem.message)
    error.problem = problem
    return error


class MetadataError(ZarrstackError, ValueError):
    """A metadata document is missing, malformed or contradictory."""

    kind = "metadata"


class UnsupportedError(ZarrstackError, ValueError):
    """Valid as it lies, but it cannot be described or written; it is refused by name."""

    kind = "unsupported"


class ChunkError(ZarrstackError, ValueError):
    """The stored bytes of a chunk do not decode to what the metadata says."""

    kind = "chunk"


class CastError(ZarrstackError, ValueError):
    """A value cannot be represented in the data type that was asked for."""

    kind = "cast"


class StorageError(ZarrstackError, RuntimeError):
    """Reading or writing storage failed; nothing is known about the value."""

    kind = "storage"


class SourceChangedError(StorageError):
    """An object of the source is not the one that was listed."""

    kind = "source-changed"


class JobError(ZarrstackError, RuntimeError):
    """The job cannot go on: its destination, source or ledger is not as it should be."""

    kind = "job"


class WorkerError(ZarrstackError, RuntimeError):
    """What runs the tasks elsewhere cannot: it is gone, or of another version."""

    kind = "worker"


class VerificationError(ZarrstackError, ValueError):
    """Source and destination do not say the same."""

    kind = "verification"


class UsageError(ZarrstackError, ValueError):
    """The request itself makes no sense; nothing was touched."""

    kind = "usage"


KINDS: Final[Mapping[str, type[ZarrstackError]]] = MappingProxyType(
    {
        error.kind: error
        for error in (
            ZarrstackError,
            MetadataError,
            UnsupportedError,
            ChunkError,
            CastError,
            StorageError,
            SourceChangedError,
            JobError,
            WorkerError,
            VerificationError,
            UsageError,
        )
    }
)
"""Every kind and its error; the kind "error" is the root's own and not raised."""
