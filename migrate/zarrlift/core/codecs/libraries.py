"""The library that implements each codec; for reports on speed and on differences."""

from __future__ import annotations

import zlib
from importlib.metadata import version


def libraries() -> dict[str, str]:
    """Codecs -> library and package with their versions. Imports the packages, so not for start-up."""
    import numcodecs.blosc
    import zstandard

    zstd = ".".join(map(str, zstandard.ZSTD_VERSION))
    return {
        "gzip, zlib": _deflate(),
        "zstd": f"libzstd {zstd} (zstandard {zstandard.__version__})",
        "blosc": f"c-blosc {numcodecs.blosc.VERSION_STRING} (numcodecs {numcodecs.__version__})",
        "crc32c": f"google-crc32c {version('google-crc32c')}",
        "all else": f"numcodecs {numcodecs.__version__}, numpy {version('numpy')}",
    }


def _deflate() -> str:
    from . import deflate

    if deflate.libdeflate is not None:
        isal = "" if deflate.isal is None else f", isal {version('isal')}"
        return f"libdeflate (deflate {deflate.libdeflate.__version__}){isal}"
    return f"zlib {zlib.ZLIB_RUNTIME_VERSION}; the package deflate, which is faster, is not installed"
