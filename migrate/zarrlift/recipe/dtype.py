"""Parses `--dtype`: a v3 data type that both zarr-python versions read."""

from __future__ import annotations

import json

from zarrstack.core.errors import UsageError, ZarrstackError
from zarrstack.core.json_text import JSONObject, canonical
from zarrstack.core.similar_names import meant

from ..core.chain.reader_table import data_types, readers
from ..core.data_types.v3 import DataType


def parse_data_type(value: str | JSONObject | DataType | None) -> DataType | None:
    """The data type for `--dtype`: a v3 name such as float32, or v3 JSON; UsageError for anything else."""
    if value is None or isinstance(value, DataType):
        return value
    text = value if isinstance(value, str) else canonical(value)
    table = data_types()
    try:
        data_type = DataType.from_json(json.loads(text) if text.lstrip().startswith("{") else text)
    except (ZarrstackError, ValueError, KeyError) as error:
        raise UsageError(
            "unknown data type",
            found=text,
            expected=", ".join(name for name, row in table.items() if row.portable) + ", or v3 JSON",
            advice=meant(text, table),
        ) from error
    row = table.get(data_type.name)
    if row is None or readers()[0] not in row.readers:  # zarr-python, the older
        raise UsageError("this data type cannot be written", found=text, expected=", ".join(table))
    return data_type


def data_type_text(data_type: DataType) -> str:
    """Inverse of `parse_data_type`."""
    data = data_type.to_json()
    return data if isinstance(data, str) else canonical(data)
