"""Print the pins of what only the suite needs: `python tests/pins/suite_only.py PINS`.

`.ci/run lowest` installs what users install at the oldest versions that both pyproject.toml allow. The tools
of the suite, and the readers that check results, stay at the versions that it is written for.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OF_DEVELOPERS = {"test", "dev"}
FOLLOWS = {"dask": "distributed", "pydantic": "pydantic-zarr"}
"""What has the version that another package, which users install, asks for."""


def named(texts: list[str]) -> set[str]:
    """The packages of some requirements."""
    return {re.match(r"[\w.-]+", text)[0].lower() for text in texts}


def of_users() -> set[str]:
    """What both distributions require, or an extra of them that is not for developers."""
    found = set()
    for file in (ROOT / "transformers" / "pyproject.toml", ROOT / "pyproject.toml"):
        document = tomllib.loads(file.read_text())
        found |= named(document["project"]["dependencies"])
        for extra, texts in document["project"]["optional-dependencies"].items():
            found |= named(texts) if extra not in OF_DEVELOPERS else set()
    return found


if __name__ == "__main__":
    users = of_users()
    for line in Path(sys.argv[1]).read_text().splitlines():
        name = line.partition("==")[0].strip().lower()
        if "==" in line and not line.startswith("#") and name not in users and FOLLOWS.get(name) not in users:
            print(line)
