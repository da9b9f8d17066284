"""`ReadOnly`, and what every layer is that cannot be written to: `Unwritable`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, NoReturn, Self

from zarr.abc.store import ByteRequest
from zarr.core.buffer import Buffer, BufferPrototype

from ..base.intercept import Around
from ..base.transformer import StorageTransformer
from ..core.errors import UsageError


class Unwritable(StorageTransformer):
    """A layer that cannot be written to: whatever would change something is refused, and told by its key."""

    to_write: ClassVar[str]
    """What to do instead, for who wants to write; it ends every refusal."""

    @property
    def read_only(self) -> bool:
        """True."""
        return True

    @property
    def supports_writes(self) -> bool:
        """False."""
        return False

    @property
    def supports_deletes(self) -> bool:
        """False."""
        return False

    def with_read_only(self, read_only: bool = False) -> Self:
        """The same layer; UsageError when it is asked to become writable."""
        if not read_only:
            self._refuse("with_read_only(False)", None)
        return self

    async def set(self, key: str, value: Buffer) -> None:
        """Refused."""
        self._refuse("set", key)

    async def set_if_not_exists(self, key: str, value: Buffer) -> None:
        """Refused, even where it would change nothing."""
        self._refuse("set_if_not_exists", key)

    async def _set_many(self, values: Iterable[tuple[str, Buffer]]) -> None:
        """Refused, even when there are no values."""
        self._refuse("set", next((key for key, _ in values), None))

    async def delete(self, key: str) -> None:
        """Refused."""
        self._refuse("delete", key)

    async def delete_dir(self, prefix: str) -> None:
        """Refused."""
        self._refuse("delete_dir", prefix)

    async def clear(self) -> None:
        """Refused."""
        self._refuse("clear", "")

    def set_sync(self, key: str, value: Buffer) -> None:
        """Refused."""
        self._refuse("set", key)

    def delete_sync(self, key: str) -> None:
        """Refused."""
        self._refuse("delete", key)

    def _check_writable(self) -> None:
        self._refuse("a change", None)

    def _refuse(self, operation: str, key: str | None) -> NoReturn:
        # The middle of the message is what zarr's own stores say, which callers match on.
        raise UsageError(
            f"layer {self.name!r}: store was opened in read-only mode and does not support writing",
            key=key,
            found=operation,
            expected="only reading",
            advice=self.to_write,
        )


class ReadOnly(Unwritable, Around):
    """Refuses every call that would change something, whatever the store below allows.

    Unlike a store opened read-only, it cannot be turned back: `with_read_only(False)` is refused too.
    """

    name = "readonly"
    transparent = True
    in_metadata: ClassVar[bool] = True
    to_write: ClassVar[str] = "Take the layer out of the stack to write."

    def get_sync(
        self, key: str, *, prototype: BufferPrototype | None = None, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """As `get`, without an event loop (zarr 3.3+)."""
        below: Any = self._store
        value: Buffer | None = below.get_sync(key, prototype=prototype, byte_range=byte_range)
        return value

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """The value or a range of it; None when the key is missing."""
        return await self._store.get(key, prototype, byte_range)
