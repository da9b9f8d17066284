"""Stores for tests of layers: they are killed, they are folders."""

from __future__ import annotations

from zarr.storage import LocalStore, MemoryStore

# A store whose writer is killed: after so many changes, nothing reaches it any more.


class Killed(BaseException):
    """Not an Exception: no code of a layer runs for a process that is killed."""


class Dying(MemoryStore):
    def __init__(self, store_dict=None, *, lives=10**9, read_only=False):
        super().__init__(store_dict, read_only=read_only)
        self.lives = lives

    def __eq__(self, other):
        return super().__eq__(other)

    __hash__ = None

    def change(self):
        if self.lives == 0:
            raise Killed
        self.lives -= 1

    async def set(self, key, value, byte_range=None):
        self.change()
        await super().set(key, value)

    async def set_if_not_exists(self, key, value):
        self.change()
        await super().set_if_not_exists(key, value)

    async def delete(self, key):
        self.change()
        await super().delete(key)

    async def delete_dir(self, prefix):
        for key in [key async for key in self.list_prefix(prefix.rstrip("/") + "/")]:
            await self.delete(key)

    async def clear(self):
        for key in list(self._store_dict):
            await self.delete(key)


# Layers over a folder, where their suite runs over a dictionary otherwise.


class InAFolder:
    """Stands before `LayerTests` or a suite made of it."""

    leaves_folders = True
    # zarr's machine fails over a LocalStore alone (3.4.2): when an array's last chunk is gone, it still
    # lists the empty `c`, where its model does not. It runs over a MemoryStore in the other classes.
    test_zarr_hierarchy_state_machine = None

    def below(self, place, *, read_only=False):
        return LocalStore(place.folder, read_only=read_only)
