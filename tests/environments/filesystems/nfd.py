"""A file system that stores names decomposed (NFD) and finds them in any form, as HFS+ does: nfd.py FOLDER DIR."""

from __future__ import annotations

import os
import sys
import unicodedata

from fuse import FUSE, FuseOSError, Operations


class Decomposed(Operations):
    """Passes everything to a folder, with names decomposed."""

    def __init__(self, root: str) -> None:
        self.root = root

    def __call__(self, op: str, path: str, *args: object) -> object:
        method = getattr(self, op, None) or getattr(super(), op)
        try:
            return method(self.root + unicodedata.normalize("NFD", path), *args)
        except OSError as error:
            raise FuseOSError(error.errno) from error

    def getattr(self, path: str, fh: int | None = None) -> dict[str, float]:
        facts = os.lstat(path)
        names = "st_mode st_nlink st_size st_uid st_gid st_atime st_mtime st_ctime".split()
        return {name: getattr(facts, name) for name in names}

    def readdir(self, path: str, fh: int) -> list[str]:
        return [".", "..", *os.listdir(path)]

    def create(self, path: str, mode: int, fi: object = None) -> int:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode)

    def open(self, path: str, flags: int) -> int:
        return os.open(path, flags)

    def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
        return os.pread(fh, size, offset)

    def write(self, path: str, data: bytes, offset: int, fh: int) -> int:
        return os.pwrite(fh, data, offset)

    def truncate(self, path: str, length: int, fh: int | None = None) -> None:
        os.truncate(path, length)

    def rename(self, path: str, target: str) -> None:
        os.rename(path, self.root + unicodedata.normalize("NFD", target))

    def link(self, path: str, existing: str) -> None:
        os.link(self.root + unicodedata.normalize("NFD", existing), path)

    def utimens(self, path: str, times: tuple[float, float] | None = None) -> None:
        os.utime(path, times)

    def mkdir(self, path: str, mode: int) -> None:
        os.mkdir(path, mode)

    def rmdir(self, path: str) -> None:
        os.rmdir(path)

    def unlink(self, path: str) -> None:
        os.unlink(path)

    def chmod(self, path: str, mode: int) -> None:
        os.chmod(path, mode)

    def release(self, path: str, fh: int) -> None:
        os.close(fh)


if __name__ == "__main__":
    FUSE(Decomposed(sys.argv[1]), sys.argv[2], foreground=True, default_permissions=True)
