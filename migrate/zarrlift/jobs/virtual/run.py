"""`migrate --virtual`: plans, makes the references of every array, checks a sample, and publishes."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from zarrstack.core.errors import Problem, UsageError, ZarrstackError
from zarrstack.core.paths import join

from ...archive.chunk_inventory import NOT_LISTED
from ...core.grid.frames import N5Blocks
from ...errors import SourceChangedError
from ...formats.describe import describe
from ...planning.inventories import Inventories
from ...planning.planner import make_plan
from ...planning.regrid.blocks import memory_budget
from ...storage.icechunk.place import IcechunkPlace, is_icechunk_url
from ...storage.open_storage import is_url, open_storage, refuse_mistyped
from ...transfer.counts import MoveCounts, MoveResult
from ...transfer.events import Planned, TaskDone
from ...transfer.references import ArrayReferences, References
from ...transfer.referred_objects import ReferredPlace, ReferredVersions
from ...transfer.unexpected_errors import unexpected_error
from .. import log_messages
from ..checks.checks import Checks, Question
from ..outcome import Outcome, log_outcome
from ..places import refuse_several
from ..progress import Progress, listing_shown, send_end
from ..run_job import refuse_unsuitable
from ..source_check import SourceCheck
from .kerchunk import JSON, PARQUET, Kerchunk, KerchunkParquet

if TYPE_CHECKING:
    from ...archive.chunk_inventory import Inventory
    from ...planning.plans import ArrayPlan, Plan
    from ..archive_run import ArchiveRequest
    from .icechunk_output import IcechunkOutput

_OF_COPIES: Final = (
    "in_place", "overwrite", "inventory", "source_through", "dest_through", "provenance", "ro_crate",
)  # fmt: skip
"""Options of `migrate` that do not apply to references, besides `link`."""


def refuse_options(options: Mapping[str, object]) -> None:
    """Raise UsageError if options are given that do not apply to references."""
    names = [name for name, value in options.items() if value not in (None, False)]
    if names:
        raise UsageError(
            "references are written in one run, without a job and without layers",
            found=", ".join("--" + name.replace("_", "-") for name in names),
            advice="Omit the option, or migrate without --virtual.",
        )


def plan_virtual(request: ArchiveRequest) -> Plan:
    """The plan; nothing is written."""
    run = VirtualRun(request)
    with closing(run.output):
        return run.plan(Inventories())


def migrate_virtual(request: ArchiveRequest, progress: Progress | None = None) -> Outcome:
    """Write references to the chunks of an archive; the errors are those of `migrate`."""
    run = VirtualRun(request)
    with closing(run.output):
        run.output.refuse_existing()
        return run.whole(progress)


class VirtualRun:
    """One run, with both ends opened."""

    def __init__(self, request: ArchiveRequest) -> None:
        """StorageError, and UsageError also for options that do not apply."""
        given, links = {name: getattr(request, name) for name in _OF_COPIES}, request.link != "auto"
        refuse_options(given | {"link": links})
        if request.destination is None:
            raise UsageError(
                "references need a destination", expected="an Icechunk repository or a .json file"
            )
        self.request = request
        options = request.storage_options
        self.storage = open_storage(
            request.source, storage_options=options, follow_links=request.follow_links
        )
        place = ReferredPlace.of(self.storage)
        self.output = output_for(request.destination, request.dest_storage_options, place, options)

    def plan(self, inventories: Inventories) -> Plan:
        """The plan for the current content of the source."""
        archive = describe(self.storage, format=self.request.format, options=self.request.reading)
        refuse_several(archive, self.storage, self.request.format, "v3")
        plan, _ = make_plan(
            archive,
            self.storage,
            self.request.recipe,
            destination=self.output.url,
            virtual=self.output.keys,
            reading=self.request.reading,
            inventories=inventories,
        )
        arrays = [
            replace(array, problems=(*array.problems, *_notes(array, inventories.get(array.path))))
            for array in plan.arrays
        ]
        notes = []
        if not self.output.keeps_versions or inventories.unnoticed:
            notes.append(_NO_VERSIONS)
        return replace(plan, arrays=tuple(arrays), problems=(*plan.problems, *notes))

    def whole(self, progress: Progress | None) -> Outcome:
        """Plan, refer, check and publish."""
        started = time.monotonic()
        inventories = Inventories()
        with listing_shown(progress, lambda: inventories.listed):
            plan = self.plan(inventories)
        refuse_unsuitable(plan)
        if progress is not None:
            progress(Planned(bytes=None, chunks=sum(array.chunks for array in plan.arrays)))
        failed: dict[str, tuple[Problem, ...]] = {}
        total = MoveResult()
        unchanged = SourceCheck(self.storage, plan, inventories)
        try:
            for array in plan.arrays:
                inventory = inventories.pop(array.path) or NOT_LISTED
                result = self._array(array, inventory, unchanged)
                total = total.plus(result)
                if result.problems:
                    failed[array.path] = result.problems
                    self.output.drop(array.path)
                    log_messages.failed(result.problems)
                else:
                    log_messages.array_done(array.path)
                if progress is not None:
                    progress(TaskDone(chunks=array.chunks, bytes_in=result.bytes_in))
            self._groups(plan, failed.keys(), unchanged)
            written, how_to_open = 0, ""
            warnings: Sequence[Problem] = ()
            if plan.groups or len(failed) < len(plan.arrays):
                warnings = self.output.complete()
                written = self.output.publish(f"References to {self.storage.url}")
                how_to_open = self.output.how_to_open()
        finally:
            unchanged.close()
            send_end(progress)
        refused = [problem for problem in plan.all_problems() if problem.severity == "refusal"]
        wrong = (*refused, *(problem for problems in failed.values() for problem in problems))
        outcome = Outcome(
            job="",
            state="incomplete" if wrong else "done",
            arrays_done=len(plan.arrays) - len(failed),
            arrays_total=len(plan.arrays) + sum(refusal.kind == "array" for refusal in plan.refusals),
            groups_done=len(plan.groups),
            chunks=total.chunks,
            bytes_in=total.bytes_in,
            bytes_out=written,
            filled=total.filled,
            retries=total.retries,
            seconds=time.monotonic() - started,
            problems=(*wrong, *warnings),
            how_to_open=how_to_open,
            plan=plan,
        )
        log_outcome(outcome)
        return outcome

    def _array(self, plan: ArrayPlan, inventory: Inventory, unchanged: SourceCheck) -> MoveResult:
        """Refer to the chunks of one array, and check it; problems are in the result."""
        counts = MoveCounts(plan.path, certain=inventory.certain)
        problems: Sequence[Problem]
        try:
            versions = ReferredVersions(self.storage, plan.path, plan.source, inventory)
            self.output.document(join(plan.path, "zarr.json"), plan.document)
            for item in ArrayReferences(plan, self.storage, inventory, counts):
                if isinstance(item, References):
                    self.output.refer(plan, item, versions.of(item.objects))
                else:
                    self.output.store(plan, item)
            problems = counts.moved().problems or self._check(plan, inventory)
            if not problems:
                changed = unchanged.thoroughly(plan) if versions.settle() else unchanged.begin([plan])()[0]
                problems = () if changed is None else (changed,)
        except ZarrstackError as error:
            problems = (error.at(node=plan.path).problem,)
        except Exception as error:  # noqa: BLE001 - see `unexpected_error`
            problems = (unexpected_error(plan.path, error),)
        return replace(counts.moved(), problems=tuple(problems))

    def _check(self, plan: ArrayPlan, inventory: Inventory) -> Sequence[Problem]:
        """Differences between the source and the references as zarr-python reads them."""
        verify = self.request.verify
        if verify == "none":
            return ()
        checks = Checks(self.storage, self.output.storage())
        budget = memory_budget(self.request.recipe.memory)
        return checks(Question("virtual", verify, [(plan, inventory.indexes)], budget))[0].problems

    def _groups(self, plan: Plan, failed: Collection[str], unchanged: SourceCheck) -> None:
        """Write the documents of groups; SourceChangedError if one has changed."""
        for group in plan.groups:
            problem = unchanged.group(group)
            if problem is not None:
                raise SourceChangedError(
                    problem.message,
                    node=problem.node,
                    key=problem.key,
                    found=problem.found,
                    advice="Run the command again. Nothing was written.",
                )
        done = {node.path for node in plan.published if node.path not in failed}
        for group in plan.groups:
            content = group.document if group.path else plan.document("", done)
            self.output.document(join(group.path, "zarr.json"), content)


_NO_VERSIONS = Problem(
    kind="no-versions",
    severity="warning",
    message="readers do not notice that a chunk of the source has changed since",
    found="references without ETags or times",
    advice="Do not change the source any more, or refer to files or objects of S3 from Icechunk.",
)


def _notes(plan: ArrayPlan, inventory: Inventory | None) -> Iterator[Problem]:
    """What will be stored besides references."""
    layout = plan.source
    if inventory is None or not isinstance(layout.frame, N5Blocks):
        return
    counts = np.array(layout.objects.counts)
    ends = np.array(
        [length % chunk != 0 for length, chunk in zip(layout.shape, layout.chunk_shape, strict=True)]
    )
    places = layout.objects.coordinates_of(inventory.indexes)
    cut = int(((places == counts - 1) & ends).any(axis=1).sum())
    if cut:
        yield Problem(
            kind="cut-blocks",
            severity="note",
            node=plan.path,
            message="blocks that are cut at the end of the array are stored as chunks, not referred to",
            found=f"at most {cut} of {len(inventory.indexes)} blocks",
        )


def output_for(
    destination: Any,
    options: Mapping[str, Any] | None,
    source: ReferredPlace,
    source_options: Mapping[str, Any] | None,
) -> IcechunkOutput | Kerchunk:
    """What writes references to a destination; UsageError if it names no form of them."""
    if isinstance(destination, os.PathLike):
        destination = os.fspath(destination)
    if isinstance(destination, str):
        if is_icechunk_url(destination):
            from .icechunk_output import IcechunkOutput

            return IcechunkOutput(IcechunkPlace.parse(destination, options), source, source_options)
        if not is_url(destination):
            refuse_mistyped(destination)
        text = destination if is_url(destination) else os.path.abspath(os.path.expanduser(destination))
        for ends, form in ((JSON, Kerchunk), (PARQUET, KerchunkParquet)):
            if text.rstrip("/").endswith(ends):
                return form(text.rstrip("/"), options, source, source_options)
    raise UsageError(
        "this destination cannot hold references",
        found=str(destination),
        expected="an Icechunk repository, such as icechunk:///path, or a name that ends in .json or .parquet",
    )
