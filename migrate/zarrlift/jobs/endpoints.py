"""Opens the source and destination of a migration and checks that they fit together."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from zarrstack.core.errors import UsageError

from ..archive.nodes import Layout
from ..formats.describe import describe
from ..planning.inventories import Inventories
from ..planning.planner import free_space, make_plan, without_collecting
from ..planning.plans import Plan
from ..recipe.options import Format, Places, Reading, Request, StorageOptions
from ..recipe.recipe import Recipe
from ..storage.bandwidth import Bandwidth
from ..storage.base import Storage
from ..storage.local.files import WRITTEN
from ..storage.local.storage import LocalStorage
from ..storage.open_storage import Place, is_url, open_storage
from ..storage.transformer_stack import with_layers, without_layers
from ..transfer.size_samples import SizeSamples
from ..transfer.worker import WorkerSpec
from .claim import is_exclusive, not_exclusive
from .executors import RunOptions, out_of_reach
from .ledger.ledger import Job
from .option_words import remembered
from .refusals import follow_links_in_place, refuse_nested, refuse_several


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoints:
    """The opened source and destination of a migration."""

    source: Storage
    destination: Storage
    reading: Reading
    in_place: bool
    named: bool
    """Whether a destination was given."""
    places: Places
    """How they were opened."""
    source_place: str | None
    """The source as given, if it can be opened by another process; a path is made absolute."""
    access: WorkerSpec | None
    """That of workers elsewhere; None for a store that exists only in this process."""
    local_destination: Path | None
    """The destination's directory, if it is local."""
    place: Storage
    """The destination without layers, where a job makes its claim."""
    source_through: str | None = None
    destination_through: str | None = None
    """Layers of either side, as text."""

    @classmethod
    def open(cls, source: Place, destination: Place | None, request: Request, places: Places) -> Endpoints:
        """Open source and destination; UsageError if the combination is invalid."""
        in_place, reading = request.in_place, request.reading
        layers = request.source_through, request.dest_through
        if in_place and destination is not None:
            raise UsageError("a migration in place has no destination", found=str(destination))
        try:
            first = _source(
                source, places.storage_options, in_place=in_place, follow_links=reading.follow_links
            )
        except UsageError as error:
            from ..storage.not_an_archive import swapped_arguments

            if (hint := swapped_arguments(error, destination)) is None:
                raise
            raise hint from error
        if destination is None:
            second = first
        else:
            second = open_storage(destination, storage_options=places.dest_storage_options, mode="w")
            second.document_limit = WRITTEN
            refuse_nested(first, second)
        if second.on_branch and layers[1]:
            raise UsageError(
                "layers cannot be put over an Icechunk repository that is written", found=layers[1]
            )
        if in_place and any(layers):
            raise UsageError("layers cannot be used in place", found=layers[0] or layers[1])
        ends = with_layers(first, layers[0]), with_layers(second, layers[1], written=True)
        named = source, source if destination is None else destination
        options = places.storage_options, places.of_result(in_place=in_place)
        return cls(
            source=ends[0],
            destination=ends[1],
            place=without_layers(second),
            local_destination=second.root if isinstance(second, LocalStorage) else None,
            source_through=layers[0],
            destination_through=layers[1],
            reading=reading,
            in_place=in_place,
            named=destination is not None,
            places=places,
            source_place=_text(source),
            access=access_of(named, ends, options, layers),
        )

    def limited(self, limit: Bandwidth | None) -> Endpoints:
        """The same within a limit of bytes per second; in place, where no chunk moves, there is none.

        Icechunk makes its own requests, so a repository that is written is not limited.
        """
        if limit is None or self.in_place:
            return self
        on_branch = self.destination.on_branch
        return replace(
            self,
            source=limit.over(self.source, "source"),
            destination=self.destination if on_branch else limit.over(self.destination, "destination"),
        )

    @without_collecting()
    def plan(
        self,
        recipe: Recipe,
        format: Format | None,
        *,
        elsewhere: bool = False,
        inventories: Inventories | None = None,
        earlier: Mapping[str, Layout] | None = None,
    ) -> Plan:
        """The plan for the current content of the source.

        `elsewhere`: for workers on other machines. `inventories` and `earlier` as for `make_plan`.
        """
        archive = describe(self.source, format=format, options=self.reading)
        goal = None if self.in_place else self.destination.url if self.named else "v3"
        refuse_several(archive, self.source, format, goal)
        if self.in_place:
            self.source.document_limit = WRITTEN
        if self.in_place and archive.format == "zarr3":
            raise UsageError(
                "this is Zarr v3 already; in place there is nothing to add",
                found=self.source.url,
                expected="a destination, to give it other chunks, codecs or shards",
            )
        if self.in_place and archive.format == "zarr3-draft":
            raise UsageError(
                "the 2022 draft of Zarr v3 is not migrated in place",
                found="its entry point zarr.json, where Zarr v3 keeps the root's own document",
                expected="a destination",
            )
        if self.in_place and archive.format == "n5" and self.reading.axes != "kept":
            raise UsageError(
                "axes cannot be reversed in place: the chunks stay as they are",
                found="--axes reversed",
                expected="--axes kept, or a destination",
            )
        plan = make_plan(
            archive,
            self.source,
            recipe,
            destination=None if self.in_place else (self.destination.url if self.named else ""),
            free_bytes=free_space(self.destination) if self.named else None,
            reading=self.reading,
            elsewhere=elsewhere,
            inventories=inventories,
            earlier=earlier,
            samples=SizeSamples(self.source),
        )
        if self.destination.on_branch:
            from .branch import fitted

            plan = fitted(plan, self.destination)
        if recipe.model is not None:
            from ..models.requirement import unmet

            plan = replace(plan, problems=(*plan.problems, *unmet(recipe.model, plan)))
        if self.named and not is_exclusive(self.place):
            plan = replace(plan, problems=(*plan.problems, not_exclusive(self.place.url)))
        return plan

    @property
    def beside(self) -> Path | None:
        """The local directory that the job file is next to; None for a destination elsewhere."""
        if self.place.on_branch:
            return getattr(self.place, "local_path", None)
        return self.local_destination

    @property
    def options(self) -> dict[str, str]:
        """The storage options of both sides as stored in the job, without possible secrets."""
        return remembered(self.places, in_place=self.in_place)

    @property
    def lasting_place(self) -> str:
        """A path or URL that opens the source from any directory; contains no credentials."""
        place = self.source_place
        return self.source.url if place is None or is_url(place) else place

    def check_reach(self, options: RunOptions) -> None:
        """Raise JobError or UsageError if worker processes are requested but cannot reach both ends."""
        if self.destination.on_branch:
            from .branch import refuse_executor

            refuse_executor(options, self.destination)
        if options.elsewhere and self.access is None:
            raise out_of_reach()

    def spec(self, job: Job, options: RunOptions) -> WorkerSpec | None:
        """The access of workers elsewhere in one run of a job, if they have any."""
        return self.access and replace(
            self.access,
            job_id=job.id,
            run=os.urandom(4).hex(),
            fsync=options.fsync,
            hard_links=job.record.link == "hard",
            recheck=options.verify != "none",
        )


def _source(place: Place, options: StorageOptions, *, in_place: bool, follow_links: bool) -> Storage:
    """Open the source, which must exist and, for in-place work, be writable."""
    text = _text(place)
    if not in_place or (text is not None and not is_url(text)):
        first = open_storage(place, storage_options=options, follow_links=follow_links)
        follow_links_in_place(first, follow_links=follow_links, in_place=in_place)
        if not in_place or isinstance(first, LocalStorage):
            return first
    return open_storage(place, storage_options=options, mode="w", follow_links=follow_links)


def access_of(
    places: tuple[Place, Place],
    ends: tuple[Storage, Storage],
    options: tuple[StorageOptions, StorageOptions],
    layers: tuple[str | None, str | None],
) -> WorkerSpec | None:
    """How workers elsewhere open source and destination; None if one exists only in this process.

    Each process has its own `memory://`: a worker would read nothing and its output would be lost.
    """
    source, destination = map(_text, places)
    if source is None or destination is None or any(end.in_process for end in ends):
        return None
    return WorkerSpec(
        job_id="",
        run="",
        source=source,
        destination=destination,
        source_options=json.dumps(dict(options[0] or {})),
        destination_options=json.dumps(dict(options[1] or {})),
        source_through=layers[0],
        destination_through=layers[1],
    )


def _text(place: Place) -> str | None:
    """A path or URL as text that is valid in every directory."""
    if not isinstance(place, (str, os.PathLike)):
        return None
    text = os.fspath(place)
    return text if isinstance(place, str) and is_url(text) else os.path.abspath(os.path.expanduser(text))
