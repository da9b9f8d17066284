from zarr.abc.buffer import Buffer
from zarr.abc.store import Store

from zarrstack import StorageTransformer
from zarrstack.errors import UsageError


class Quota(StorageTransformer):
    """Refuses values with which the store would be larger than `most` bytes."""

    name = "quota"
    transparent = True

    def __init__(self, store: Store | None = None, *, most: int) -> None:
        super().__init__(store)
        self._most = most
        self._sizes: dict[str, int] = {}

    async def set(self, key: str, value: Buffer) -> None:
        self._check_writable()
        if not self._sizes:
            for each in [each async for each in self._store.list()]:
                self._sizes.setdefault(each, await self._store.getsize(each))
        before = self._sizes.get(key, 0)
        if sum(self._sizes.values()) - before + len(value) > self._most:
            raise UsageError(f"layer {self.name!r}: more than {self._most} bytes", key=key)
        self._sizes[key] = len(value)
        try:
            await self._store.set(key, value)
        except BaseException:
            self._sizes[key] = before
            raise

    async def delete(self, key: str) -> None:
        await super().delete(key)
        self._sizes.pop(key, None)
