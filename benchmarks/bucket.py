"""A bucket of an S3 server that answers late and counts requests, for the workloads in object stores."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

SERVER = Path(__file__).parent.parent / "tests" / "support" / "object_server.py"


class Bucket:
    """Called `bucket`; every command that runs meanwhile finds it through the environment."""

    def __init__(self, address: str) -> None:
        from obstore.store import S3Store

        self._address = address
        self._store: Any = S3Store("bucket", endpoint=address, client_options={"allow_http": True})
        urllib.request.urlopen(urllib.request.Request(f"{address}/bucket", method="PUT")).close()

    def fill(self, folder: Path, prefix: str) -> None:
        """Put the files of a folder below a prefix."""
        for file in folder.rglob("*"):
            if file.is_file():
                self._store.put(f"{prefix}/{file.relative_to(folder).as_posix()}", file.read_bytes())

    def clear(self, prefix: str) -> None:
        """Delete what is below a prefix."""
        for part in self._store.list(f"{prefix}/"):
            self._store.delete([item["path"] for item in part])

    def begin(self, milliseconds: float) -> None:
        """Count from now on, and answer so many milliseconds after each request."""
        urllib.request.urlopen(f"{self._address}/-", data=str(milliseconds).encode()).close()
        urllib.request.urlopen(f"{self._address}/-").close()

    def end(self) -> str:
        """What was requested since the beginning; from now on, answers come at once."""
        with urllib.request.urlopen(f"{self._address}/-") as answer:
            found = json.load(answer)
        self.begin(0)
        return f", {found['requests']:5} requests, {found['most']:3} at once"


@contextmanager
def served() -> Iterator[Bucket]:
    """An empty bucket."""
    keys = dict.fromkeys(("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"), "benchmark")
    with subprocess.Popen((sys.executable, SERVER, "0"), stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            address = f"http://127.0.0.1:{int(process.stdout.readline())}"
            region = {"AWS_ENDPOINT_URL": address, "AWS_DEFAULT_REGION": "us-east-1"}
            with patch.dict(os.environ, {**keys, **region}):
                yield Bucket(address)
        finally:
            process.terminate()
