"""`ReadOnly`, and `ReadOnlyLayer`, the base of all layers that cannot be written to."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, NoReturn, Self

from zarr.abc.buffer import Buffer

from ..base.intercept import Intercept
from ..base.transformer import StorageTransformer
from ..core.errors import UsageError


class ReadOnlyLayer(StorageTransformer):
    """A layer that cannot be written to; every mutating call raises a UsageError that names the key."""

    awaits_only_below = True
    to_write: ClassVar[str]
    """Advice at the end of every error: how to write instead."""

    read_only = True
    supports_writes = supports_deletes = False

    def with_read_only(self, read_only: bool = False) -> Self:
        """Return this layer; UsageError if it should become writable."""
        if not read_only:
            self._check_writable("with_read_only(False)")
        return self

    async def _set_many(self, values: Iterable[tuple[str, Buffer]]) -> None:
        self._check_writable("set", next((key for key, _ in values), None))

    def _check_writable(self, operation: str = "a change", key: str | None = None) -> NoReturn:
        # The middle of the message is that of zarr's stores, which callers match on.
        raise UsageError(
            f"layer {self.name!r}: store was opened in read-only mode and does not support writing",
            key=key,
            found=operation,
            expected="only reading",
            advice=self.to_write,
        )


class ReadOnly(ReadOnlyLayer, Intercept):
    """Refuses every mutating call, whatever the store below allows.

    Unlike a store opened read-only, it cannot be made writable: `with_read_only(False)` is refused too.

    Examples
    --------
    >>> zarrstack.stack(MemoryStore(), zarrstack.ReadOnly()).read_only
    True
    """

    name = "readonly"
    transparent = True
    in_metadata: ClassVar[bool] = True
    to_write: ClassVar[str] = "Take the layer out of the stack to write."

    get = StorageTransformer.get
    awaits_only_below = True
