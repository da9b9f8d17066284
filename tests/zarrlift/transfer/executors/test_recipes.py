"""MPI and Ray by the recipes of the docs, in an environment of their own: the same bytes."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
import zarr
from tests.zarrlift.storage.conftest import files

import zarrlift

PAGE = Path(__file__).parents[4] / "docs" / "howto" / "cluster.md"


@pytest.mark.needs_reader("engines")
@pytest.mark.parametrize("engine", ["mpi", "ray"])
def test_a_recipe_of_the_docs_gives_the_same_bytes(engine: str, tmp_path: Path) -> None:
    folder = Path(os.environ["ZARRLIFT_ENGINES"]) / "bin"
    source = tmp_path / "old.zarr"
    array = zarr.create_array(source, shape=(500, 40), chunks=(5, 40), dtype="<i4", zarr_format=2)
    array[:] = np.arange(20000).reshape(500, 40)
    assert zarrlift.migrate(source, tmp_path / "threads.zarr").ok
    script = tmp_path / f"{engine}_migrate.py"
    script.write_text(re.search(rf'```text title="{script.name}"\n(.*?)```', PAGE.read_text(), re.DOTALL)[1])
    start = (
        [folder / "mpiexec", "-n", "3", "--oversubscribe", "--allow-run-as-root"] if engine == "mpi" else []
    )
    module = ["-m", "mpi4py.futures"] if engine == "mpi" else []
    done = subprocess.run(
        [*start, folder / "python", *module, script, source, tmp_path / "engine.zarr"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "HOME": str(tmp_path), "RAY_AUTH_MODE": "disabled", "PMIX_MCA_gds": "hash"},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "done"
    assert files(tmp_path / "engine.zarr") == files(tmp_path / "threads.zarr")
