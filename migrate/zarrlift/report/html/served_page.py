"""The page that `zarrlift serve` shows at its root, with lines to copy for readers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from ...conventions.apply import look_for
from ...formats.describe import describe
from ...views.http_server import Page
from .. import blocks as b
from ..viewers import ORIGINS, viewer_links
from .archive_page import archive_page, pictures
from .pictures import PictureMaker, Pictures
from .rendering import policy

if TYPE_CHECKING:
    from ...archive.nodes import Archive
    from ...recipe.options import Format, Reading
    from ...storage.base import Storage

_MAX_IMAGES: Final = 24


def served_page(
    storage: Storage,
    *,
    format: Format | None,
    reading: Reading,
    shown_as: str,
    origins: frozenset[str],
) -> Callable[[str], Page]:
    """The page, given the server's address; the archive is read when it is first asked for, once."""
    lock = threading.Lock()
    cache: list[tuple[Archive, Pictures]] = []

    def page(address: str) -> Page:
        with lock:
            if not cache:
                archive = look_for(describe(storage, format=format, options=reading), storage)
                cache.append((archive, pictures(storage, format, reading, PictureMaker(images=_MAX_IMAGES))))
        archive, previews = cache[0]
        first = previews.shown[0].image.viewer_path(shown_as) if previews.shown else None
        readers = _readers(address, shown_as, first, origins)
        text = archive_page(archive, "served by zarrlift", previews, {}, readers)
        return Page(text=text, policy=policy())

    return page


def _readers(address: str, shown_as: str, image: str | None, origins: frozenset[str]) -> Iterator[b.Block]:
    """How programs open what is served, in lines to copy."""
    yield b.Section(title="Open it in")
    if shown_as == "n5":
        lines = (
            "import tensorstore",
            f'spec = {{"driver": "n5", "kvstore": {address + quote(image or "PATH")!r}}}',
            "array = tensorstore.open(spec).result()",
        )
        yield b.Lines(lines, "tensorstore")
    else:
        zarr = f'data = zarr.open({address!r}, mode="r", zarr_format={shown_as[-1]})'
        yield b.Lines(("import zarr  # with fsspec and aiohttp", zarr), "zarr-python")
    if image is not None:
        yield viewer_links(image, address, shown_as)
        if not origins >= ORIGINS and "*" not in origins:
            yield b.Advice("Pages of viewers may read this server after it is started with:", "--open")
