"""The options of `inspect` for many archives, and those of other commands that look.

Annotations are not postponed, as in `options`.
"""

from typing import Annotated, Any, TypeAlias

import typer

from .option_groups import Group, option
from .option_values import usage
from .options import Reading
from .recipe_options import load_recipe

SearchedSource: TypeAlias = Annotated[
    str,
    typer.Argument(help="The archive, or a folder, prefix or glob with many: a path or URL.", metavar="SRC"),
]

NoList: TypeAlias = Annotated[
    bool,
    option("--no-list", help="Do not compare the names and sizes of all objects first (for 10^9 objects)."),
]
DigestFile: TypeAlias = Annotated[
    str | None,
    option(
        "--digest",
        help="Compare the values of SRC with digests: a file of `zarrlift digest`, or a job.",
        metavar="FILE",
    ),
]
HtmlFile: TypeAlias = Annotated[
    str | None, option("--html", help="Write one self-contained HTML page to a file.", metavar="FILE")
]


class Assessing(Group):
    """How many archives are assessed."""

    no_listing: Annotated[
        bool, option("--no-listing", help="Many archives: do not list chunks; no amounts, no cost.")
    ] = False
    rate: Annotated[
        str | None,
        option(
            "--rate",
            help="Many archives: bytes per second, for the time, such as 200MB/s.",
            metavar="RATE",
        ),
    ] = None
    recipe: Annotated[
        str | None,
        option("--recipe", help="Many archives: the recipe of the migration.", metavar="FILE.toml"),
    ] = None

    def wanted(self, source: str, reading: Reading) -> bool:
        """Whether these options, or what is in a place, ask for a census."""
        asked = self.no_listing or any(given is not None for given in (self.rate, self.recipe))
        if asked and reading.from_ is not None:
            raise usage("--from is for one archive, the options of a census are for many")
        if asked or reading.from_ is not None:
            return asked
        from zarrstack.core.errors import ZarrstackError

        from ..formats.globs import divided
        from ..formats.search import is_tree
        from ..storage.open_storage import open_storage

        if divided(source)[1] is not None:
            return True
        options = reading.arguments()["storage_options"]
        try:
            return is_tree(source, open_storage(source, storage_options=options), storage_options=options)
        except ZarrstackError:
            return False  # `inspect` raises it again

    def arguments(self) -> dict[str, Any]:
        """Arguments of `census`."""
        from zarrstack.core.sizes import parse_rate

        rate = None if self.rate is None else parse_rate(self.rate)
        if self.rate is not None and not rate:
            raise usage(f"--rate is not a rate: {self.rate}", expected="such as 200MB/s")
        return {
            "listing": not self.no_listing,
            "rate": rate,
            "recipe": load_recipe(self.recipe),
        }
