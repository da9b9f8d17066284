"""The page on one archive, with stored sizes and pictures; that of `serve` has lines to copy for readers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from zarrstack.core.errors import ZarrstackError

from ...conventions.apply import look_for
from ...formats.describe import describe, opened
from ...jobs.units import count_text
from ...planning.inspection import inspected
from ...recipe.options import Reading
from ...recipe.recipe import Recipe
from ...views.http_server import Page
from .. import blocks as b
from ..archive import blocks
from ..viewers import ORIGINS, served_first, viewer_links
from .pictures import NO_PICTURES, PictureMaker, Pictures, opener
from .rendering import page, policy

if TYPE_CHECKING:
    from ...archive.nodes import Archive
    from ...planning.plans import ArrayPlan
    from ...recipe.options import Format
    from ...storage.base import Storage


def page_of(place: Any, **options: Any) -> str:
    """The page on the archive at a place, with stored sizes, for which chunks are listed."""
    storage, reading, format = opened(place, options)  # noqa: A001 - as in the public functions
    archive = inspected(describe(storage, format=format, options=reading), storage, reading)
    previews = pictures(storage, format, reading, PictureMaker())
    image = previews.shown[0].image.viewer_path("zarr3") if previews.shown else None
    links = served_first(archive.url, image)
    return archive_page(archive, "zarrlift inspect", previews, _stored(archive, storage, reading), links)


def pictures(storage: Storage, format: Format | None, reading: Reading, maker: PictureMaker) -> Pictures:
    """Pictures of the images of an archive, so far as there is a view of it."""
    from ...views.legacy import view_of

    try:
        view = view_of(storage, format=format, reading=reading)
    except ZarrstackError:
        return NO_PICTURES
    return maker.pictures(view.plan, {"middle plane": opener(lambda: view)})


def archive_page(
    archive: Archive,
    kicker: str,
    previews: Pictures,
    stored: Mapping[str, ArrayPlan],
    more: Iterable[b.Block] = (),
) -> str:
    """The page on an archive, with `more` before its pictures and its tree."""
    numbers = {node.path: number for number, node in enumerate(archive.nodes)}
    before = (*more, b.Section(title="Pictures"), previews.linked(lambda path: f"r{numbers.get(path, 0)}"))
    refused = sum(node.refused for node in archive.nodes)
    return page(
        blocks(archive, stored, before=before),
        kicker=kicker,
        title=archive.url.rstrip("/").rpartition("/")[2] or archive.url,
        state=f"{count_text(refused, 'node')} refused" if refused else archive.format,
        tone="bad" if refused else "",
    )


def _stored(archive: Archive, storage: Storage, reading: Reading) -> dict[str, ArrayPlan]:
    """The plan of each array, with its listed chunks; empty if the archive cannot be planned or listed."""
    from ...planning.planner import make_plan

    try:
        plan, _ = make_plan(archive, storage, Recipe(), destination="", reading=reading)
    except ZarrstackError:
        return {}
    return {array.path: array for array in plan.arrays} if storage.can_list else {}


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
