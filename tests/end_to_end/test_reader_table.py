"""The table of who reads what, compared with further readers that are installed."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
from tests.support.reader_cases import all_cases, features_of, same
from tests.support.readers import READERS, parametrize_readers

from zarrlift.core.chain.reader_table import features, reading


@pytest.fixture(scope="session")
def archive(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """An archive with an array for each feature in a group of its own, and feature -> path."""
    root = tmp_path_factory.mktemp("features")
    paths = {feature: f"{number:03}/array" for number, feature in enumerate(all_cases())}
    for place in (root, *(root / path.partition("/")[0] for path in paths.values())):
        place.mkdir(exist_ok=True)
        (place / "zarr.json").write_text('{"zarr_format": 3, "node_type": "group", "attributes": {}}')
    for feature, case in all_cases().items():
        case.write(root / paths[feature])
    return root, paths


@parametrize_readers(("zarrs", "xarray", "zarrita"))
@pytest.mark.needs_reader("once")
def test_a_reader_reads_what_the_table_has(reader: str, archive: tuple[Path, dict[str, str]]) -> None:
    root, paths = archive
    found, expected = {}, {}
    for feature, case in all_cases().items():
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                values = np.asarray(READERS[reader](root, paths[feature]).values)
        except Exception:  # noqa: BLE001 - each reader has its own errors
            found[feature] = "refused"
        else:
            found[feature] = "read" if same(values, case) else "misread"
        names = features_of(case)
        refused = any(reader in features()[name].refused_by for name in names)
        expected[feature] = "read" if reader in reading(names).able else "refused" if refused else "misread"
    assert found == expected
