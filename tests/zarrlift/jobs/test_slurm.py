"""A job array on a real Slurm."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.support.slurm import slurm, wait_until


@pytest.mark.needs_reader("slurm")
def test_a_task_of_an_array_is_requeued(tmp_path: Path) -> None:
    script = tmp_path / "array.sh"
    script.write_text(
        "#!/bin/sh\n"
        "case $SLURM_ARRAY_TASK_ID$SLURM_RESTART_COUNT in\n"
        "2) touch started; exec sleep 1000;;\n"
        "3) kill -9 $$;;\n"
        "esac\n"
        "echo $SLURM_RESTART_COUNT >> $SLURM_ARRAY_TASK_ID\n"
    )
    with slurm(Path(os.environ["ZARRLIFT_SLURM"]), 4) as system:
        job = system("sbatch", "--parsable", "--array=0-3", f"--chdir={tmp_path}", script)
        wait_until((tmp_path / "started").exists)
        system.requeue(job, 2)
        assert system.ended(job) == {0: "COMPLETED", 1: "COMPLETED", 2: "COMPLETED", 3: "FAILED"}
        system.requeue(job, 3)
        assert set(system.ended(job).values()) == {"COMPLETED"}
    assert [(tmp_path / f"{index}").read_text() for index in range(4)] == ["\n", "\n", "1\n", "1\n"]
