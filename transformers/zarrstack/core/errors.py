"""The errors of zarrstack, and the record that every error and warning carries.

A `Problem` states the place (node, key), the found and the expected value, and advice. Readers collect
problems; code that cannot continue raises a `ZarrstackError`, which holds one. `kind` strings are stable,
because programs match on them. The built-in bases (ValueError for invalid data or requests,
RuntimeError for failures of storage) are for callers that do not know these classes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, Literal, Self, TypedDict, Unpack

Severity = Literal["note", "warning", "refusal"]
LONGEST: Final = 1000
"""Maximum length in characters of each text of a problem."""


class WholeText(str):
    """A text that is not truncated, because each of its parts has been."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A finding about an archive, with its place."""

    kind: str
    """Stable identifier, such as "metadata" or "chunk"."""
    message: str
    severity: Severity = "refusal"
    """"note" and "warning" do not affect the node; "refusal" excludes it."""
    node: str | None = None
    """Path of the node, "" for the root; None if no node is concerned."""
    key: str | None = None
    """Storage key, relative to the archive's root."""
    found: str | None = None
    expected: str | None = None
    advice: str | None = None

    def __post_init__(self) -> None:
        """Truncate long texts: a malicious document may have a fill value of a million numbers."""
        for name in ("message", "found", "expected", "advice"):
            text = getattr(self, name)
            if text is not None and len(text) > LONGEST and not isinstance(text, WholeText):
                object.__setattr__(self, name, text[:LONGEST] + "...")

    def at(self, *, node: str | None = None, key: str | None = None) -> Problem:
        """A copy with missing parts of its place filled in."""
        return replace(
            self,
            node=self.node if self.node is not None else node,
            key=self.key if self.key is not None else key,
        )

    def to_json(self) -> dict[str, str]:
        """The fields that are set, as JSON."""
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


class Details(TypedDict, total=False):
    """The optional fields of a problem, as keyword arguments."""

    node: str | None
    key: str | None
    found: str | None
    expected: str | None
    advice: str | None


def short(text: str, most: int = 400) -> str:
    """A path or another text for display; a very long one is shortened in the middle."""
    return text if len(text) <= most else f"{text[: most // 2]}...{text[-most // 2 :]}"


class ZarrstackError(Exception):
    """Base of all errors raised deliberately by this distribution.

    The keyword arguments are fields of `Problem`, which is in `problem`: `node`, `key`, `found`, `expected`
    and `advice`.

    Examples
    --------
    >>> from zarrstack.errors import ZarrstackError
    >>> try:
    ...     zarrstack.Throttle(bytes_per_second="fast")
    ... except ZarrstackError as error:
    ...     print(error.kind)
    usage
    """

    kind: ClassVar[str] = "error"
    problem: Problem

    def __init__(self, message: str, **details: Unpack[Details]) -> None:
        super().__init__(message)
        self.problem = Problem(kind=self.kind, message=message, **details)

    def at(self, *, node: str | None = None, key: str | None = None) -> Self:
        """This error, with missing parts of its place filled in."""
        self.problem = self.problem.at(node=node, key=key)
        return self

    def __str__(self) -> str:
        return str(self.problem)

    @classmethod
    def of(cls, problem: Problem, *, before: str = "") -> Self:
        """An error of this kind with another one's problem, and text before its message."""
        error = cls(
            before + problem.message if before else problem.message
        )  # as it is: it may be `WholeText`
        error.problem = replace(problem, kind=cls.kind, message=error.problem.message)
        return error

    def __reduce__(self) -> tuple[Any, ...]:
        # Errors cross process boundaries; keyword-only arguments require this for pickling.
        return (type(self).of, (self.problem,))


class MetadataError(ZarrstackError, ValueError):
    """A metadata document is missing, malformed or contradictory."""

    kind = "metadata"


class UnsupportedError(ZarrstackError, ValueError):
    """Valid, but it cannot be described or written; the error names it."""

    kind = "unsupported"


class ChunkError(ZarrstackError, ValueError):
    """The stored bytes of a chunk do not decode as the metadata requires."""

    kind = "chunk"


class CastError(ZarrstackError, ValueError):
    """A value cannot be represented in the target data type."""

    kind = "cast"


class StorageError(ZarrstackError, RuntimeError):
    """Reading or writing storage failed; the value is unknown."""

    kind = "storage"


class UsageError(ZarrstackError, ValueError):
    """The request is invalid; nothing was changed."""

    kind = "usage"
