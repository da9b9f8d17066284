"""Servers of S3 for tests: our own, which counts and can be changed, and two that others wrote."""

from __future__ import annotations

import io
import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.request
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import aiohttp
from aiohttp import web
from tests.support import object_server
from yarl import URL

AZURITE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""That of every Azurite (https://learn.microsoft.com/azure/storage/common/storage-use-azurite)."""
KEY, SECRET = "user", "hidden-word"
_OF_A_CONNECTION = frozenset({"connection", "keep-alive", "transfer-encoding", "content-length"})


class Server(ABC):
    """A server with one bucket, `bucket`."""

    @abstractmethod
    async def answer(self, request: web.Request) -> web.StreamResponse:
        """The server's answer to a request, in the loop of the proxy."""

    async def leave(self) -> None:  # noqa: B027 - most have nothing to close
        """Close what the proxy's loop has opened."""

    @abstractmethod
    def clear(self) -> None:
        """Empty the bucket, uploads included."""

    @abstractmethod
    def put(self, content: Mapping[str, bytes]) -> None:
        """Write objects, by key."""

    @abstractmethod
    def remove(self, key: str) -> None:
        """Delete an object."""

    @abstractmethod
    def objects(self, prefix: str = "") -> dict[str, bytes]:
        """All objects, by key."""

    @abstractmethod
    def uploads(self) -> list[str]:
        """Uploads that nobody ended."""


class Ours(Server):
    """`object_server.py`, which the benchmarks use, too."""

    def __init__(self) -> None:
        self.store = object_server.Store(0.0)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        answered: web.StreamResponse = await self.store.answer(request)
        return answered

    def clear(self) -> None:
        self.store.objects = {"bucket": {}}
        self.store.parts.clear()

    def put(self, content: Mapping[str, bytes]) -> None:
        self.store.objects["bucket"].update(content)

    def remove(self, key: str) -> None:
        del self.store.objects["bucket"][key]

    def objects(self, prefix: str = "") -> dict[str, bytes]:
        found = self.store.objects.get("bucket", {}).items()
        return {key: data for key, data in found if key.startswith(prefix)}

    def uploads(self) -> list[str]:
        return list(self.store.parts)


class Process(Server):
    """A server in a process of its own."""

    def __init__(self, port: int) -> None:
        from obstore.store import S3Store

        self._address = f"http://127.0.0.1:{port}"
        self._session: aiohttp.ClientSession | None = None
        self._store = S3Store(
            "bucket",
            endpoint=self._address,
            access_key_id=KEY,
            secret_access_key=SECRET,
            region="us-east-1",
            client_options={"allow_http": True},
        )

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                auto_decompress=False,
                skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
                connector=aiohttp.TCPConnector(limit=0),
            )
        # Signatures cover the path and the Host as the client wrote them.
        url = URL(self._address + request.raw_path, encoded=True)
        body = await request.read()
        headers = [(name, value) for name, value in request.headers.items() if name.lower() != "expect"]
        data = io.BytesIO(body) if body else None
        async with self._session.request(
            request.method, url, headers=headers, data=data, allow_redirects=False
        ) as answered:
            content = await answered.read()
            found = answered.headers.items()
            kept = [(name, value) for name, value in found if name.lower() not in _OF_A_CONNECTION]
            response = web.Response(status=answered.status, headers=kept, body=content)
            if request.method == "HEAD" and "Content-Length" in answered.headers:
                response.headers["Content-Length"] = answered.headers["Content-Length"]
            return response

    async def leave(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    def put(self, content: Mapping[str, bytes]) -> None:
        for key, data in content.items():
            self._store.put(key, data, use_multipart=False)

    def remove(self, key: str) -> None:
        self._store.delete(key)

    def objects(self, prefix: str = "") -> dict[str, bytes]:
        found = [item["path"] for page in self._store.list(prefix.strip("/") or None) for item in page]
        return {key: bytes(self._store.get(key).bytes()) for key in found}


class Moto(Process):
    """moto, in Python; objects lie in its memory."""

    def clear(self) -> None:
        self._ask("/moto-api/reset", "POST")
        self._ask("/bucket", "PUT")

    def uploads(self) -> list[str]:
        return re.findall(r"<UploadId>(.*?)</UploadId>", self._ask("/bucket?uploads", "GET"))

    def _ask(self, path: str, method: str) -> str:
        body = None if method == "GET" else b""
        asked = urllib.request.Request(self._address + path, method=method, data=body)
        with urllib.request.urlopen(asked) as answered:
            text: str = answered.read().decode()
        return text


class Versitygw(Process):
    """versitygw, in Go; objects are files in a folder."""

    def __init__(self, port: int, folder: Path) -> None:
        super().__init__(port)
        self._folder = folder

    def clear(self) -> None:
        shutil.rmtree(self._folder / "bucket", ignore_errors=True)
        (self._folder / "bucket").mkdir()

    def uploads(self) -> list[str]:
        return [path.name for path in self._folder.glob("bucket/.sgwtmp/multipart/*/*")]


SERVERS = {"moto": "ZARRLIFT_MOTO", "versitygw": "ZARRLIFT_VERSITYGW"}
"""Servers that others wrote, and the variable that names where each is installed (tests/environments)."""


@contextmanager
def server(name: str) -> Iterator[Server]:
    """One of these servers, until the end."""
    with tempfile.TemporaryDirectory() as text:
        folder, port = Path(text), free_port()
        installed = os.environ[SERVERS[name]]
        if name == "moto":
            words = [f"{installed}/bin/moto_server", "-H", "127.0.0.1", "-p", str(port)]
            made: Server = Moto(port)
        else:
            (folder / "objects").mkdir()
            words = [installed, "--port", f"127.0.0.1:{port}", "--quiet", "posix", str(folder / "objects")]
            made = Versitygw(port, folder / "objects")
        keys = {"ROOT_ACCESS_KEY": KEY, "ROOT_SECRET_KEY": SECRET}
        with listening(words, port, folder, keys):
            yield made


@contextmanager
def azurite() -> Iterator[str]:
    """The connection string of Azurite, with its fixed account, until the end."""
    program = Path(os.environ["ZARRLIFT_AZURITE"]) / "node_modules/azurite/dist/src/blob/main.js"
    with tempfile.TemporaryDirectory() as text:
        folder, port = Path(text), free_port()
        options = ["--blobPort", str(port), "--inMemoryPersistence", "--disableTelemetry"]
        words = ["node", str(program), "--silent", "--skipApiVersionCheck", *options]
        with listening(words, port, folder, {}):
            account = f"AccountName=devstoreaccount1;AccountKey={AZURITE_KEY}"
            yield f"BlobEndpoint=http://127.0.0.1:{port}/devstoreaccount1;{account}"


def free_port() -> int:
    """A port that nobody uses."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


@contextmanager
def listening(words: list[str], port: int, folder: Path, environment: dict[str, str]) -> Iterator[None]:
    """A program that answers at a port."""
    log = folder / "log"
    with log.open("wb") as out:
        process = subprocess.Popen(words, stdout=out, stderr=out, cwd=folder, env=os.environ | environment)
    try:
        for _ in range(600):
            assert process.poll() is None, log.read_text()
            with socket.socket() as asked:
                if asked.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        else:
            raise AssertionError(log.read_text())
        yield
    finally:
        process.terminate()
        process.wait()
