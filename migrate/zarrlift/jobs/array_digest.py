"""The digest of a migrated array: the sum of its tasks', or that of what is stored."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from zarrstack.core.digest.value_digest import BlockSums, ValueSums

from ..archive.chunk_inventory import take_inventory

if TYPE_CHECKING:
    from zarrstack.core.digest.value_digest import ArrayDigest

    from ..planning.plans import ArrayPlan
    from ..storage.base import Storage
    from ..verification.elsewhere import Elsewhere
    from .ledger.ledger import Job
    from .ledger.rows import NodeRow


def array_digest(
    job: Job,
    row: NodeRow,
    plan: ArrayPlan,
    destination: Storage,
    checked: bytes | None,
    elsewhere: Callable[[], Elsewhere | None],
) -> ArrayDigest:
    """The digest of an array whose chunks are all written; ZarrstackError if they cannot be read.

    `checked` are the sums of a check that has read all values. Without them, those of the tasks are added up.
    Tasks that pass on whole objects (`relink`), and none (`stay`), see no values. The result is then read, by
    workers `elsewhere` if there are any.
    """
    layout = plan.destination
    sums = job.digests.sums(row.id, plan.tasks) if checked is None else BlockSums.from_bytes(checked)
    if sums is not None:
        return ValueSums(layout.shape, layout.data_type, layout.fill_value).digest(sums)
    from ..verification.value_digests import digest_array

    inventory = take_inventory(destination, plan.path, layout)
    return digest_array(
        destination,
        plan.path,
        layout,
        inventory,
        allow_pickle=plan.move.allow_pickle,
        elsewhere=elsewhere(),
    )
