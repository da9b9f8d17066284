import os

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from zarr.abc.buffer import Buffer, BufferPrototype
from zarr.abc.store import ByteRequest, Store

from zarrstack import StorageTransformer, cut
from zarrstack.errors import ChunkError, UsageError


class Encrypt(StorageTransformer):
    """Encrypts every value with AES-256-GCM; names and listings stay readable."""

    name = "encrypt"

    def __init__(self, store: Store | None = None, *, variable: str = "ZARR_KEY") -> None:
        super().__init__(store)
        if variable not in os.environ:
            raise UsageError(f"layer {self.name!r}: no key", expected=f"64 hex digits in ${variable}")
        self._cipher = AESGCM(bytes.fromhex(os.environ[variable]))

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        stored = await self._store.get(key, prototype)  # a part of it could not be decrypted
        if stored is None:
            return None
        data = stored.to_bytes()
        try:
            value = self._cipher.decrypt(data[:12], data[12:], key.encode())
        except InvalidTag:
            raise ChunkError(f"layer {self.name!r}: not written with this key, or damaged", key=key) from None
        return cut(prototype.buffer.from_bytes(value), byte_range)

    async def set(self, key: str, value: Buffer) -> None:
        nonce = os.urandom(12)
        data = self._cipher.encrypt(nonce, value.to_bytes(), key.encode())
        await self._store.set(key, type(value).from_bytes(nonce + data))

    async def getsize(self, key: str) -> int:
        return await self._store.getsize(key) - 28  # 12 of the nonce, 16 of the tag
