"""The forms of references, by the destination's name."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from zarrstack.core.errors import UsageError

from ...storage.open_storage import is_url
from .kerchunk_json import SUFFIX, KerchunkJson

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
        text = destination if is_url(destination) else os.path.abspath(os.path.expanduser(destination))
        if text.endswith(SUFFIX):
            return KerchunkJson(text, options, source, source_options)
    raise UsageError(
        "this destination cannot hold references",
        found=str(destination),
        expected="an Icechunk repository, such as icechunk:///path, or a file that ends in .json",
    )
