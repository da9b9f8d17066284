"""Models as instances of pydantic-zarr, which belongs to the extra `models` and is imported here on use."""

from __future__ import annotations

from typing import Any

from zarrstack.core.errors import MetadataError
from zarrstack.core.json_text import JSONObject

from .hierarchy import checked_model
from .json_schema import library
from .zom import copied, format_of, is_group


def to_pydantic(model: JSONObject) -> Any:
    """The `model` as pydantic-zarr's `GroupSpec` or `ArraySpec` of its Zarr format.

    `model_dump(mode="json")` of the result is a model again. A v2 array without a `dimension_separator` gets
    the specification's default, ".", for which pydantic-zarr takes "/".

    Raises
    ------
    MetadataError
        If this is not a model, or if pydantic-zarr does not accept it.
    UsageError
        If pydantic-zarr is not installed.

    Examples
    --------
    >>> spec = zarrlift.models.to_pydantic(zarrlift.models.show("ocean.zarr").model)
    >>> spec.members["lat"].shape
    (90,)
    """
    whole = checked_model(model, "the model").model
    number = format_of(whole)
    if number == 2:
        whole = copied(whole, lambda node: is_group(node) or node.setdefault("dimension_separator", "."))
    module = library(f"pydantic_zarr.v{number}", "a model of pydantic-zarr")
    kind: Any = module.GroupSpec if is_group(whole) else module.ArraySpec
    try:
        return kind.model_validate(whole)
    except ValueError as error:
        raise MetadataError("pydantic-zarr does not accept the model", found=str(error)) from error
