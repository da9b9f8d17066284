"""`zarrlift diff`: compares any two archives."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from . import options as o
from . import storage_options as s
from .session import DONE, PARTLY, USAGE, Answer

_CODES: Final = {"same": DONE, "different": PARTLY, "trouble": USAGE}
"""Those of diff (POSIX), where trouble is more than 1."""


def diff(
    first: Annotated[
        str, typer.Argument(help="An archive of any format: a path or URL, src: in options.", metavar="A")
    ],
    second: Annotated[str, typer.Argument(help="The other archive, dst: in options.", metavar="B")],
    *,
    full: o.Full = False,
    reading: o.Reading,
    storage: s.DiffStorage,
    output: o.WatchedOutput,
) -> Answer:
    """Compare two archives of any formats: nodes, attributes, shapes, data types, fill values and values.

    Chunks, codecs, byte order and keys may differ: that is listed as stored differently. Attributes count as
    they would be in Zarr v3, so an archive equals its migration. --from A,B names two formats.

    The exit code is 0 if all that was compared is the same, 1 if something differs, and 2 if something could
    not be compared.
    """
    import zarrlift

    from ..report import diff as report_diff

    output.session.trouble = USAGE
    with output.watched() as progress:
        found = zarrlift.diff(
            first,
            second,
            full=full,
            progress=progress,
            **reading.arguments(),
            **storage.of(first, second),
        )
    return Answer(
        code=_CODES[found.state],
        text=lambda: report_diff.blocks(found),
        data=found.to_json,
        brief=lambda: report_diff.brief(found),
        wrong=lambda: report_diff.blocks(found),
    )
