"""The interface of what takes references: a repository of Icechunk, or the references of kerchunk."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

from zarrstack.core.chunk_keys_v3 import KeyEncoding
from zarrstack.core.errors import Problem, UsageError

if TYPE_CHECKING:
    from zarrstack.core.json_text import JSONObject

    from ...planning.plans import ArrayPlan
    from ...storage.base import Storage
    from ...transfer.references import ConvertedChunk, References
    from ...transfer.referred_objects import Version


class ReferenceOutput(ABC):
    """Receives documents and references; nothing is visible before `publish`."""

    keys: KeyEncoding
    """The chunk keys that it stores."""
    url: str
    """Its place, without secrets."""
    keeps_versions: bool
    """Whether a reader is told that a referred object has changed."""

    @abstractmethod
    def refuse_existing(self) -> None:
        """Raise UsageError if something is at the place."""

    @abstractmethod
    def document(self, key: str, content: JSONObject) -> None:
        """Receive a document; that of an array precedes its chunks."""

    @abstractmethod
    def refer(self, array: ArrayPlan, references: References, versions: Sequence[Version | None]) -> None:
        """Receive references."""

    @abstractmethod
    def store(self, array: ArrayPlan, chunk: ConvertedChunk) -> None:
        """Receive a chunk that is no range of the source."""

    @abstractmethod
    def drop(self, path: str) -> None:
        """Forget an array."""

    @abstractmethod
    def storage(self) -> Storage:
        """What was received, as zarr-python reads it."""

    def complete(self) -> Sequence[Problem]:
        """Add what follows from everything received; warnings."""
        return ()

    @abstractmethod
    def publish(self, message: str) -> int:
        """Make it visible; the number of bytes written."""

    @abstractmethod
    def how_to_open(self) -> str:
        """Python that opens the result."""

    def close(self) -> None:  # noqa: B027 - most have nothing to release
        """Forget what is not published."""


def exists(url: str) -> UsageError:
    """The error for a destination where something is."""
    return UsageError(
        f"the destination exists: {url}", advice="Choose another place, or delete what is there."
    )
