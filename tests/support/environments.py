"""Where the scripts are that run in environments of other readers: `ENVIRONMENTS / NAME`."""

from __future__ import annotations

from pathlib import Path
from typing import Final

ENVIRONMENTS: Final = Path(__file__).resolve().parents[1] / "environments"
