"""zarr-python 2.18.7, in the environment of tests/environments/zarr-2.18, by the scripts there."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from tests.support.environments import ENVIRONMENTS

SCRIPTS = ENVIRONMENTS / "zarr-2.18"


def ask(script: str, place: str | Path, given: Any) -> Any:
    """What a script answers about a place, both as JSON; None where it says nothing."""
    python = Path(os.environ["ZARRLIFT_ZARR218"]) / "bin" / "python"
    words = [python, SCRIPTS / script, place, json.dumps(given)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout) if done.stdout else None
