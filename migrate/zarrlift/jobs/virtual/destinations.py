"""The forms of references, by the destination's name."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from zarrstack.core.errors import UsageError

from ...storage.icechunk.place import IcechunkPlace, is_icechunk_url
from ...storage.open_storage import is_url, refuse_mistyped
from .kerchunk import JSON, PARQUET, Kerchunk, KerchunkParquet

if TYPE_CHECKING:
    from ...transfer.referred_objects import ReferredPlace
    from .output import ReferenceOutput


def output_for(
    destination: Any,
    options: Mapping[str, Any] | None,
    source: ReferredPlace,
    source_options: Mapping[str, Any] | None,
) -> ReferenceOutput:
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
