"""Servers of object stores for tests: our own, which counts and can be changed, and those of others."""

from __future__ import annotations

import base64
import hashlib
import hmac
import io
import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from email.utils import formatdate
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote, unquote
from xml.sax.saxutils import escape

import aiohttp
from aiohttp import web
from tests.support import object_server
from yarl import URL

AZURITE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""That of every Azurite (https://learn.microsoft.com/azure/storage/common/storage-use-azurite)."""
AZURITE_ACCOUNT = "devstoreaccount1"
KEY, SECRET = "user", "hidden-word"
_OF_A_CONNECTION = frozenset({"connection", "keep-alive", "transfer-encoding", "content-length"})


class Server(ABC):
    """A server with one bucket, `bucket`; of S3 where a class does not say otherwise."""

    scheme: ClassVar[str] = "s3"
    checks_credentials: ClassVar[bool] = False

    def options(self, endpoint: str) -> dict[str, Any]:
        """What opens the server at this address, as s3fs takes it."""
        return {"key": KEY, "secret": SECRET, "client_kwargs": {"endpoint_url": endpoint}}

    def wrong_options(self, endpoint: str) -> list[dict[str, Any]]:
        """The same with a key that does not fit."""
        return [self.options(endpoint) | {"secret": "another"}]

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


class Process(Server):
    """A server in a process of its own."""

    own_headers: ClassVar[tuple[str, ...]] = ()
    """Headers of a request that are not passed on."""
    keeps_connections: ClassVar[bool] = True
    """Whether a request may use the connection of the one before."""

    def __init__(self, port: int, folder: Path) -> None:
        self._address = f"http://127.0.0.1:{port}"
        self._folder = folder
        self._session: aiohttp.ClientSession | None = None

    @abstractmethod
    def command(self, installed: str, port: int) -> list[str]:
        """What starts it; `installed` is what the variable of its environment says."""

    @property
    def store(self) -> Any:
        """The bucket, past any proxy."""
        from obstore.store import S3Store

        return S3Store(
            "bucket",
            endpoint=self._address,
            access_key_id=KEY,
            secret_access_key=SECRET,
            region="us-east-1",
            client_options={"allow_http": True},
        )

    async def answer(self, request: web.Request) -> web.StreamResponse:
        return await self.passed_on(request, request.method, request.raw_path, await request.read())

    async def passed_on(self, request: web.Request, method: str, path: str, body: bytes) -> web.Response:
        """What the server answers to a request with these headers."""
        if self._session is None:
            self._session = aiohttp.ClientSession(
                auto_decompress=False,
                skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
                connector=aiohttp.TCPConnector(limit=0, force_close=not self.keeps_connections),
            )
        # Signatures cover the path and the Host as the client wrote them.
        url = URL(self._address + path, encoded=True)
        left_out = ("expect", "content-length", *self.own_headers)
        headers = [(name, value) for name, value in request.headers.items() if name.lower() not in left_out]
        content = io.BytesIO(body) if body else None
        if content is None and "Content-Length" in request.headers:
            headers.append(("Content-Length", "0"))
        async with self._session.request(
            method, url, headers=headers, data=content, allow_redirects=False
        ) as answered:
            received = await answered.read()
            sent = answered.headers.items()
            kept = [(name, value) for name, value in sent if name.lower() not in _OF_A_CONNECTION]
            response = web.Response(status=answered.status, headers=kept, body=received)
            if method == "HEAD" and "Content-Length" in answered.headers:
                response.headers["Content-Length"] = answered.headers["Content-Length"]
            return response

    async def leave(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    def clear(self) -> None:
        self.store.delete([item["path"] for page in self.store.list() for item in page])

    def put(self, content: Mapping[str, bytes]) -> None:
        store = self.store
        for key, data in content.items():
            store.put(key, data, use_multipart=False)

    def remove(self, key: str) -> None:
        self.store.delete(key)

    def objects(self, prefix: str = "") -> dict[str, bytes]:
        store = self.store
        keys = [item["path"] for page in store.list(prefix.strip("/") or None) for item in page]
        return {key: bytes(store.get(key).bytes()) for key in keys}

    def ask(self, path: str, method: str, body: bytes = b"", headers: Mapping[str, str] | None = None) -> str:
        """What the server itself answers."""
        given = {"Content-Type": "application/octet-stream"} | dict(headers or {})
        request = urllib.request.Request(self._address + path, body or None, given, method=method)
        with urllib.request.urlopen(request) as answered:
            text: str = answered.read().decode()
        return text


class Moto(Process):
    """moto, in Python; objects are in its memory. Keys are not checked."""

    def command(self, installed: str, port: int) -> list[str]:
        return [f"{installed}/bin/moto_server", "-H", "127.0.0.1", "-p", str(port)]

    def clear(self) -> None:
        self.ask("/moto-api/reset", "POST")
        self.ask("/bucket", "PUT")


class Versitygw(Process):
    """versitygw, in Go; objects are files in a folder."""

    checks_credentials = True

    def command(self, installed: str, port: int) -> list[str]:
        (self._folder / "objects").mkdir()
        keys = ["--access", KEY, "--secret", SECRET]
        listen = ["--port", f"127.0.0.1:{port}", "--quiet"]
        return [installed, *keys, *listen, "posix", str(self._folder / "objects")]

    def clear(self) -> None:
        shutil.rmtree(self._folder / "objects/bucket", ignore_errors=True)
        (self._folder / "objects/bucket").mkdir()


class Azurite(Process):
    """Azurite, of Microsoft, in Node; blobs are in its memory."""

    scheme = "az"
    checks_credentials = True
    # It closes connections on which nothing came for five seconds. While it looks through all of its blobs,
    # as for each request, it does not see what comes, and resets connections with requests on them.
    keeps_connections = False

    def command(self, installed: str, port: int) -> list[str]:
        program = f"{installed}/node_modules/azurite/dist/src/blob/main.js"
        options = ["--blobPort", str(port), "--inMemoryPersistence", "--disableTelemetry"]
        return ["node", program, "--silent", "--skipApiVersionCheck", *options]

    def options(self, endpoint: str) -> dict[str, Any]:
        account = f"AccountName={AZURITE_ACCOUNT};AccountKey={AZURITE_KEY}"
        return {"connection_string": f"BlobEndpoint={endpoint}/{AZURITE_ACCOUNT};{account}"}

    def wrong_options(self, endpoint: str) -> list[dict[str, Any]]:
        right = {"account_name": AZURITE_ACCOUNT, "endpoint_url": f"{endpoint}/{AZURITE_ACCOUNT}"}
        return [right | {"account_key": "QUFBQQ=="}, right | {"anon": True}]

    @property
    def store(self) -> Any:
        from obstore.store import AzureStore

        return AzureStore(
            "bucket",
            account_name=AZURITE_ACCOUNT,
            account_key=AZURITE_KEY,
            endpoint=f"{self._address}/{AZURITE_ACCOUNT}",
            client_options={"allow_http": True},
        )

    def clear(self) -> None:
        """Make the container, anew if it is there: to delete a blob, Azurite looks through all."""
        with suppress(urllib.error.HTTPError):  # there is none yet
            self._container("DELETE")
        self._container("PUT")

    def _container(self, method: str) -> None:
        date, path = formatdate(usegmt=True), f"/{AZURITE_ACCOUNT}/bucket"
        kind = "application/octet-stream"
        text = f"{method}\n\n\n\n\n{kind}\n\n\n\n\n\n\nx-ms-date:{date}\nx-ms-version:2021-08-06\n"
        text += f"/{AZURITE_ACCOUNT}{path}\nrestype:container"
        digest = hmac.new(base64.b64decode(AZURITE_KEY), text.encode(), hashlib.sha256).digest()
        signature = f"SharedKey {AZURITE_ACCOUNT}:{base64.b64encode(digest).decode()}"
        headers = {"x-ms-date": date, "x-ms-version": "2021-08-06", "Authorization": signature}
        self.ask(f"{path}?restype=container", method, headers=headers)


_GOOGLE_PAGE = 4000
"""Google's pages have 1,000 objects; for each, fake-gcs-server looks at all files."""


class FakeGcs(Process):
    """fake-gcs-server, in Go; objects are files, since its memory looks through all for each.

    It has the JSON API of Google Cloud Storage, and obstore speaks the XML API
    (https://cloud.google.com/storage/docs/xml-api/overview): requests are translated, so that what is
    written, listed and compared is what the server has; uploads in parts end here.
    """

    scheme = "gs"
    own_headers = ("host",)  # it takes others for names of buckets

    def __init__(self, port: int, folder: Path) -> None:
        super().__init__(port, folder)
        self._parts: dict[str, dict[int, bytes]] = {}

    def command(self, installed: str, port: int) -> list[str]:
        host = ["-scheme", "http", "-host", "127.0.0.1", "-port", str(port)]
        files = ["-backend", "filesystem", "-filesystem-root", str(self._folder), "-log-level", "error"]
        return [installed, *host, "-public-host", f"127.0.0.1:{port}", *files]

    def options(self, endpoint: str) -> dict[str, Any]:
        return {"token": "anon", "endpoint_url": endpoint}

    def clear(self) -> None:
        self.ask("/_internal/delete_all", "POST")
        self._parts.clear()
        with suppress(urllib.error.HTTPError):  # it is there
            self.ask(
                "/storage/v1/b?project=x", "POST", b'{"name": "bucket"}', {"Content-Type": "application/json"}
            )

    def put(self, content: Mapping[str, bytes]) -> None:
        for key, data in content.items():
            self.ask(_upload(key), "POST", data)

    def remove(self, key: str) -> None:
        self.ask(f"/bucket/{quote(key, safe='')}", "DELETE")

    def objects(self, prefix: str = "") -> dict[str, bytes]:
        listing, start = [], f"/storage/v1/b/bucket/o?prefix={quote(prefix)}"
        page = json.loads(self.ask(start, "GET"))
        listing += page.get("items", [])
        while token := page.get("nextPageToken"):
            page = json.loads(self.ask(f"{start}&pageToken={quote(token)}", "GET"))
            listing += page.get("items", [])
        contents = {}
        for item in listing:
            with urllib.request.urlopen(f"{self._address}/bucket/{quote(item['name'], safe='')}") as answered:
                contents[item["name"]] = answered.read()
        return contents

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """An answer of the XML API."""
        bucket, _, place = request.raw_path.partition("?")[0].strip("/").partition("/")
        query, body, key = request.query, await request.read(), unquote(place)
        if not key and request.method == "GET":
            return await self._listing(request, bucket)
        if request.method == "POST" and "uploads" in query:
            upload = f"upload{len(self._parts)}-{time.monotonic_ns()}"
            self._parts[upload] = {}
            return object_server.Store.told("InitiateMultipartUploadResult", f"<UploadId>{upload}</UploadId>")
        if request.method == "PUT" and "partNumber" in query:
            self._parts[query["uploadId"]][int(query["partNumber"])] = body
            return web.Response(headers={"ETag": '"part"'})
        if request.method == "DELETE" and "uploadId" in query:
            del self._parts[query["uploadId"]]
            return web.Response(status=204)
        if request.method == "POST" and "uploadId" in query:
            parts = self._parts.pop(query["uploadId"])
            body = b"".join(parts[number] for number in sorted(parts))
            await self.passed_on(request, "POST", _upload(key), body)
            return object_server.Store.told("CompleteMultipartUploadResult", "<ETag>x</ETag>")
        if request.method == "PUT":
            path = _upload(key, bucket)
            if "x-goog-copy-source" in request.headers:
                before = unquote(request.headers["x-goog-copy-source"]).strip("/").partition("/")[2]
                names = [f"/b/{bucket}/o/{quote(name, safe='')}" for name in (before, key)]
                path = f"/storage/v1{names[0]}/rewriteTo{names[1]}?alt=json"
            if (generation := request.headers.get("x-goog-if-generation-match")) is not None:
                path += f"&ifGenerationMatch={generation}"
            answered = await self.passed_on(request, "POST", path, body)
            if answered.status != 200:
                return _refused(answered.status)
            stored = json.loads(answered.body)  # type: ignore[arg-type]
            stored = stored.get("resource", stored)
            headers = {"ETag": f'"{stored["etag"]}"', "x-goog-generation": stored["generation"]}
            return web.Response(headers=headers, text="<CopyObjectResult/>")
        return await self.passed_on(request, request.method, request.raw_path, body)

    async def _listing(self, request: web.Request, bucket: str) -> web.Response:
        query = request.query
        path = f"/storage/v1/b/{bucket}/o?maxResults={_GOOGLE_PAGE}"
        names = {"prefix": "prefix", "delimiter": "delimiter", "continuation-token": "pageToken"}
        after = query.get("start-after", "")
        path += "".join(f"&{name}={quote(query[given])}" for given, name in names.items() if query.get(given))
        path += f"&startOffset={quote(after)}" if after else ""
        answered = await self.passed_on(request, "GET", path, b"")
        if answered.status == 404:
            return _refused(404)
        page = json.loads(answered.body)  # type: ignore[arg-type]
        rows = [
            f"<Contents><Key>{escape(item['name'])}</Key><Generation>{item['generation']}</Generation>"
            f'<LastModified>{item["updated"]}</LastModified><ETag>"{item["etag"]}"</ETag>'
            f"<Size>{item['size']}</Size></Contents>"
            for item in page.get("items", [])
            if item["name"] > after
        ]
        rows += [
            f"<CommonPrefixes><Prefix>{escape(prefix)}</Prefix></CommonPrefixes>"
            for prefix in page.get("prefixes", [])
        ]
        if token := page.get("nextPageToken"):
            rows.append(f"<NextContinuationToken>{escape(token)}</NextContinuationToken>")
        return object_server.Store.told("ListBucketResult", "".join(rows))


def _refused(status: int) -> web.Response:
    code = "NoSuchBucket" if status == 404 else "PreconditionFailed"
    return web.Response(
        status=status, content_type="application/xml", text=f"<Error><Code>{code}</Code></Error>"
    )


def _upload(key: str, bucket: str = "bucket") -> str:
    return f"/upload/storage/v1/b/{bucket}/o?uploadType=media&name={quote(key, safe='')}"


SERVERS: dict[str, tuple[type[Process], str]] = {
    "moto": (Moto, "ZARRLIFT_MOTO"),
    "versitygw": (Versitygw, "ZARRLIFT_VERSITYGW"),
    "azurite": (Azurite, "ZARRLIFT_AZURITE"),
    "fake-gcs": (FakeGcs, "ZARRLIFT_FAKE_GCS"),
}
"""Servers that others wrote, and the variable that names where each is installed (tests/environments)."""
OF_S3 = [name for name, (kind, _) in SERVERS.items() if kind.scheme == "s3"]


@contextmanager
def server(name: str) -> Iterator[Server]:
    """One of these servers, until the end."""
    kind, variable = SERVERS[name]
    with tempfile.TemporaryDirectory() as text:
        folder, port = Path(text), free_port()
        made = kind(port, folder)
        with listening(made.command(os.environ[variable], port), port, folder):
            yield made


_NGINX = """
daemon off; master_process off; pid {folder}/pid; error_log {folder}/log;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/temp; proxy_temp_path {folder}/temp; fastcgi_temp_path {folder}/temp;
    uwsgi_temp_path {folder}/temp; scgi_temp_path {folder}/temp;
    server {{
        listen 127.0.0.1:{port};
        root {root};
        autoindex {autoindex};
        location /secret/ {{ alias {root}/; auth_basic x; auth_basic_user_file {folder}/users; }}
    }}
}}
"""


@contextmanager
def nginx(root: Path, *, index: bool) -> Iterator[str]:
    """The address of nginx: a folder, with or without index pages, and below `secret` for one user."""
    with tempfile.TemporaryDirectory() as text:
        folder, port = Path(text), free_port()
        values = {"folder": folder, "port": port, "root": root, "autoindex": "on" if index else "off"}
        (folder / "conf").write_text(_NGINX.format(**values))
        (folder / "users").write_text(f"{KEY}:{{PLAIN}}{SECRET}\n")
        command = [os.environ["ZARRLIFT_NGINX"], "-p", str(folder), "-c", str(folder / "conf")]
        with listening([*command, "-e", str(folder / "log")], port, folder):
            yield f"127.0.0.1:{port}"


def free_port() -> int:
    """A port that nobody uses."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


@contextmanager
def listening(words: list[str], port: int, folder: Path) -> Iterator[None]:
    """A program that answers at a port."""
    log = folder / "log"
    with log.open("wb") as out:
        process = subprocess.Popen(words, stdout=out, stderr=out, cwd=folder)
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
