"""The options for references to other places.

Annotations are not postponed, as in `options`.
"""

from typing import TYPE_CHECKING, Annotated

from .option_groups import Group, option
from .option_values import storage_options

if TYPE_CHECKING:
    from zarrstack.core.json_text import JSONObject

FSSPEC = "fsspec options: KEY=VALUE (repeatable) or one JSON object."
OF_PLACES = frozenset({"storage_options", "dest_storage_options", "allow_references", "reference_options"})
"""Options that say how places are opened, which a job does not store."""


class References(Group):
    """Which references to other places are followed, and how."""

    allow_references: Annotated[
        list[str] | None,
        option(
            "--allow-references",
            heading="What to convert",
            help="References of kerchunk and VirtualiZarr may lead to places below this directory or URL "
            "(repeatable).",
            metavar="PREFIX",
        ),
    ] = None
    reference_options: Annotated[
        list[str] | None,
        option(
            "--reference-options",
            heading="What to convert",
            help=f"{FSSPEC} For the places that references lead to.",
            metavar="OPTIONS",
        ),
    ] = None

    def source_options(self, given: list[str] | None) -> "JSONObject | None":
        """The storage options of a source, with what concerns references."""
        if not self.allow_references and not self.reference_options:
            return storage_options(given)
        from ..storage.reference_options import with_references

        options = storage_options(self.reference_options, "--reference-options")
        return with_references(storage_options(given), self.allow_references, options)
