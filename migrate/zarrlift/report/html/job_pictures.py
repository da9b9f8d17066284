"""Pictures of what a job read and what it wrote, or of one archive."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from typing import TYPE_CHECKING, Any

from zarrstack.core.errors import ZarrstackError

from ...storage.open_storage import open_storage
from ...storage.transformer_stack import with_layers
from .pictures import PictureMaker, Pictures

if TYPE_CHECKING:
    from zarr.abc.store import Store

    from ...jobs.ledger.ledger import Job
    from ...planning.plans import Plan


def pictures_of_job(
    job: Job,
    maker: PictureMaker,
    *,
    storage_options: Mapping[str, Any] | None = None,
    dest_storage_options: Mapping[str, Any] | None = None,
) -> Pictures:
    """Pictures of the images of an open job, from its source and its result, so far as they can be read."""
    plan = job.plan()
    reading, finished = plan.reading, job.state == "finished"
    if plan.in_place and dest_storage_options is None:
        dest_storage_options = storage_options

    def before() -> Store:
        from ...views.legacy import view_of

        place = job.fact("source_place") or plan.source
        source = open_storage(place, storage_options=storage_options, follow_links=reading.follow_links)
        return view_of(with_layers(source, job.record.source_through), format=plan.format, reading=reading)

    def after() -> Store:
        result = open_storage(plan.destination, storage_options=dest_storage_options)
        return with_layers(result, job.record.dest_through).zarr_store()

    complete = frozenset(row.path for row in job.nodes("array") if row.state == "done")
    sides = {"before": _opener(before), "after": _opener(after, complete)}
    if plan.in_place and finished:  # the legacy documents are gone
        del sides["before"]
    if job.state == "undone":
        del sides["after"]
    return maker.pictures(plan, sides)


def pictures_of_view(plan: Plan, view: Store, maker: PictureMaker) -> Pictures:
    """Pictures of the images in a view of an archive."""
    return maker.pictures(plan, {"middle plane": _opener(lambda: view)})


def _opener(opened: Callable[[], Store], paths: Container[str] | None = None) -> Callable[[str], Any]:
    """Opens arrays of a store, which is opened for the first of them; None for one that is not in `paths`."""
    store: list[Store | ZarrstackError] = []

    def array(path: str) -> Any:
        import zarr

        if paths is not None and path not in paths:
            return None
        if not store:
            try:
                store.append(opened())
            except ZarrstackError as error:
                store.append(error)
        if isinstance(store[0], ZarrstackError):
            raise store[0]
        return zarr.open_array(store[0], path=path, mode="r", zarr_format=3)

    return array
