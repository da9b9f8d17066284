import hashlib
import os
import struct

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from zarr.abc.buffer import Buffer, BufferPrototype
from zarr.abc.store import ByteRequest, OffsetByteRequest, RangeByteRequest, Store, SuffixByteRequest

from zarrstack import StorageTransformer, bounds
from zarrstack.errors import ChunkError, UsageError

FORMAT = b"blocks-1"
HEADER = struct.Struct("<8s8s32sQ")  # format, id of the key, random salt, length of the value
BLOCK, TAG = 32768, 16


class EncryptBlocks(StorageTransformer):
    """Encrypts values with AES-256-GCM, block by block, so that parts of them can be read."""

    name = "encrypt-blocks"

    def __init__(self, store: Store | None = None, *, variable: str = "ZARR_KEY") -> None:
        super().__init__(store)
        self._secret = bytes.fromhex(os.environ.get(variable, ""))
        if len(self._secret) != 32:
            raise UsageError(f"layer {self.name!r}: no key", expected=f"64 hex digits in ${variable}")
        self._id = hashlib.sha256(b"id of " + self._secret).digest()[:8]

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        if (part := blocks_of(byte_range)) is not None:
            ranges = [(key, RangeByteRequest(0, HEADER.size)), (key, part)]
            header, stored = await self._store.get_partial_values(prototype, ranges)
            if header is None or stored is None:
                return None
            try:
                value = self._decrypt(key, header.to_bytes(), stored.to_bytes(), byte_range, part)
                return prototype.buffer.from_bytes(value)
            except ChunkError:
                pass  # if the object was rewritten between the two reads, one read of all of it succeeds
        whole = await self._store.get(key, prototype)
        if whole is None:
            return None
        data = whole.to_bytes()
        value = self._decrypt(key, data[: HEADER.size], data[HEADER.size :], byte_range, None)
        return prototype.buffer.from_bytes(value)

    async def set(self, key: str, value: Buffer) -> None:
        data = value.to_bytes()
        header = HEADER.pack(FORMAT, self._id, os.urandom(32), len(data))
        cipher = self._cipher(header)
        stored = [header]
        for number in range(count(len(data))):
            block = data[number * BLOCK : (number + 1) * BLOCK]
            stored.append(cipher.encrypt(nonce(number), block, header + key.encode()))
        await self._store.set(key, type(value).from_bytes(b"".join(stored)))

    async def getsize(self, key: str) -> int:
        stored = await self._store.getsize(key) - HEADER.size
        return stored - TAG * -(-stored // (BLOCK + TAG))

    def _cipher(self, header: bytes) -> AESGCM:
        """Each write has a key of its own, so that the number of a block is a nonce used only once."""
        _, _, salt, _ = HEADER.unpack(header)
        return AESGCM(HKDF(SHA256(), 32, salt=salt, info=FORMAT).derive(self._secret))

    def _decrypt(
        self, key: str, header: bytes, stored: bytes, wanted: ByteRequest | None, part: ByteRequest | None
    ) -> bytes:
        """The wanted bytes, from those blocks that were read: `part` of the object, None for all of them."""
        if len(header) != HEADER.size or not header.startswith(FORMAT):
            raise ChunkError(f"layer {self.name!r}: not written by this layer, or damaged", key=key)
        _, written, _, length = HEADER.unpack(header)
        if written != self._id:
            message = f"layer {self.name!r}: written with another key"
            raise ChunkError(message, key=key, found=written.hex(), expected=self._id.hex())
        size = length + TAG * count(length)  # of all blocks
        before = size - len(stored)  # where what was read begins among them
        if isinstance(part, RangeByteRequest | OffsetByteRequest):
            before = (part.start if isinstance(part, RangeByteRequest) else part.offset) - HEADER.size
        start, stop = bounds(wanted, length)
        numbers = range(count(length)) if part is None else range(start // BLOCK, count(stop))
        changed = ChunkError(f"layer {self.name!r}: changed since it was written", key=key)
        if before if part is None else start == stop:
            raise changed  # cut or longer; an empty part is read whole, since no block proves it to be empty
        cipher, value = self._cipher(header), []
        for number in numbers:
            at = number * (BLOCK + TAG) - before
            block = memoryview(stored)[max(at, 0) : min(at + BLOCK + TAG, size - before)]
            try:
                value.append(cipher.decrypt(nonce(number), block, header + key.encode()))
            except InvalidTag:
                raise changed from None
        first = numbers.start * BLOCK
        return b"".join(value)[start - first : stop - first]


def count(length: int) -> int:
    """Blocks of a value; an empty one has one too, which proves that it is empty."""
    return max(1, -(-length // BLOCK))


def nonce(number: int) -> bytes:
    return number.to_bytes(12, "little")


def blocks_of(wanted: ByteRequest | None) -> ByteRequest | None:
    """The stored bytes with the blocks of a range; None if the whole object has to be read."""
    size = BLOCK + TAG
    match wanted:
        case RangeByteRequest(start, end) if 0 <= start < end:
            return RangeByteRequest(HEADER.size + start // BLOCK * size, HEADER.size + count(end) * size)
        case OffsetByteRequest(offset) if offset >= 0:
            return OffsetByteRequest(HEADER.size + offset // BLOCK * size)
        case SuffixByteRequest(suffix) if suffix > 0:
            return SuffixByteRequest((suffix // BLOCK + 2) * size)
    return None
