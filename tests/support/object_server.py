"""A store that speaks enough of S3 and takes its time: `object_server.py MILLISECONDS`.

Every request is answered that long after it came, however many there are, as by a store far away that is
never busy. Objects are stored in memory. The first line of output is the port. Signatures are not checked.
`GET /-` tells what was asked since the last time, `POST /-` changes the milliseconds.
"""

from __future__ import annotations

import asyncio
import itertools
import re
import sys
import xml.sax.saxutils
from collections import Counter
from urllib.parse import unquote

from aiohttp import web

NAMESPACE = 'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'
MAX_KEYS = 1000


def etag(data: bytes) -> str:
    """As good as a digest while this process lives, and worked out once for each object."""
    return f'"{hash(data) & (1 << 64) - 1:016x}"'


class Store:
    """Buckets, parts on their way, and how many requests there were of each kind."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.objects: dict[str, dict[str, bytes]] = {}
        self.parts: dict[str, dict[int, bytes]] = {}
        self.uploads = itertools.count()
        self.now = self.most = 0
        self.requests: Counter[str] = Counter()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Any request, after a while."""
        self.now += 1
        kind = "list" if "list-type" in request.query else request.method
        self.requests[kind] += 1
        self.most = max(self.most, self.now)
        try:
            body = await request.read()
            bucket, _, key = request.match_info["path"].partition("/")
            if bucket == "-" and body:
                self.seconds = float(body) / 1000
                return web.Response()
            if bucket == "-":
                told = {"requests": self.requests.total() - 1, "most": self.most, **self.requests}
                self.requests.clear()
                self.most = 0
                return web.json_response(told)
            await asyncio.sleep(self.seconds)
            if bucket not in self.objects and (key or request.method != "PUT"):
                text = "<Error><Code>NoSuchBucket</Code></Error>"
                return web.Response(status=404, content_type="application/xml", text=text)
            if not key:
                return self.bucket(request, bucket, body)
            return self.object(request, self.objects[bucket], key, body)
        finally:
            self.now -= 1

    def bucket(self, request: web.Request, bucket: str, body: bytes) -> web.Response:
        """Make one, look for one, delete several of its objects, or list it (ListObjectsV2)."""
        if request.method == "PUT":
            self.objects.setdefault(bucket, {})
        if request.method == "POST":
            keys = re.findall(r"<Key>(.*?)</Key>", body.decode())
            for key in keys:
                self.objects[bucket].pop(xml.sax.saxutils.unescape(key), None)
            return self.told("DeleteResult", "".join(f"<Deleted><Key>{key}</Key></Deleted>" for key in keys))
        if request.method != "GET":
            return web.Response(headers={"x-amz-bucket-region": "us-east-1"})
        query = request.query
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        after = query.get("continuation-token") or query.get("start-after", "")
        found: dict[str, bytes | None] = {}
        for key, data in sorted(self.objects.get(bucket, {}).items()):
            if key.startswith(prefix):
                name, mark, _ = key[len(prefix) :].partition(delimiter) if delimiter else (key, "", "")
                whole = prefix + name + mark if delimiter else key
                found[whole] = None if mark else data
        names = [name for name in found if name > after]
        part = names[:MAX_KEYS]
        rows = []
        for name in part:
            text, content = xml.sax.saxutils.escape(name), found[name]
            if content is None:
                rows.append(f"<CommonPrefixes><Prefix>{text}</Prefix></CommonPrefixes>")
            else:
                stamp = "2026-01-01T00:00:00.000Z"
                rows.append(
                    f"<Contents><Key>{text}</Key><Size>{len(content)}</Size><ETag>{etag(content)}</ETag>"
                    f"<LastModified>{stamp}</LastModified><StorageClass>STANDARD</StorageClass></Contents>"
                )
        more = len(names) > MAX_KEYS
        token = (
            f"<NextContinuationToken>{xml.sax.saxutils.escape(part[-1])}</NextContinuationToken>"
            if more
            else ""
        )
        return web.Response(
            content_type="application/xml",
            text=f"<ListBucketResult {NAMESPACE}><KeyCount>{len(part)}</KeyCount>"
            f"<IsTruncated>{str(more).lower()}</IsTruncated>{token}{''.join(rows)}</ListBucketResult>",
        )

    def object(
        self, request: web.Request, objects: dict[str, bytes], key: str, body: bytes
    ) -> web.StreamResponse:
        """One object, or a part of one."""
        method, query = request.method, request.query
        if method in ("GET", "HEAD"):
            return self.read(request, objects.get(key), key)
        if method == "DELETE":
            objects.pop(key, None)
            return web.Response(status=204)
        if method == "POST" and "uploads" in query:
            upload = f"upload{next(self.uploads)}"
            self.parts[upload] = {}
            return self.told("InitiateMultipartUploadResult", f"<UploadId>{upload}</UploadId>")
        if method == "POST":
            parts = self.parts.pop(query["uploadId"])
            objects[key] = b"".join(parts[number] for number in sorted(parts))
            return self.told("CompleteMultipartUploadResult", "<ETag>x</ETag>")
        if "uploadId" in query:
            self.parts[query["uploadId"]][int(query["partNumber"])] = body
        elif "x-amz-copy-source" in request.headers:
            bucket, _, before = unquote(request.headers["x-amz-copy-source"]).strip("/").partition("/")
            objects[key] = self.objects[bucket][before]
            return self.told("CopyObjectResult", "<ETag>x</ETag>")
        elif request.headers.get("If-None-Match") == "*" and key in objects:
            text = "<Error><Code>PreconditionFailed</Code><Condition>If-None-Match</Condition></Error>"
            return web.Response(status=412, content_type="application/xml", text=text)
        elif "If-Match" in request.headers and key not in objects:
            return self.read(request, None, key)
        elif "If-Match" in request.headers and request.headers["If-Match"] != etag(objects[key]):
            text = "<Error><Code>PreconditionFailed</Code><Condition>If-Match</Condition></Error>"
            return web.Response(status=412, content_type="application/xml", text=text)
        else:
            objects[key] = body
        return web.Response(headers={"ETag": etag(body)})

    @staticmethod
    def told(name: str, inside: str) -> web.Response:
        return web.Response(content_type="application/xml", text=f"<{name} {NAMESPACE}>{inside}</{name}>")

    @staticmethod
    def read(request: web.Request, data: bytes | None, key: str) -> web.Response:
        """All of it, or the range that is asked for (RFC 9110, section 14)."""
        if data is None:
            text = f"<Error><Code>NoSuchKey</Code><Key>{xml.sax.saxutils.escape(key)}</Key></Error>"
            return web.Response(status=404, content_type="application/xml", text=text)
        headers = {
            "ETag": etag(data),
            "Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT",
            "Accept-Ranges": "bytes",
        }
        asked = request.headers.get("Range", "")
        status = 200
        if asked:
            first, _, last = asked.removeprefix("bytes=").partition("-")
            start = int(first) if first else max(len(data) - int(last), 0)
            stop = min(int(last) + 1, len(data)) if first and last else len(data)
            headers["Content-Range"] = f"bytes {start}-{stop - 1}/{len(data)}"
            data, status = data[start:stop], 206
        if request.method == "HEAD":
            headers["Content-Length"] = str(len(data))
            return web.Response(status=status, headers=headers)
        return web.Response(status=status, headers=headers, body=data)


async def serve(seconds: float) -> None:
    """Until the process is ended."""
    app = web.Application(client_max_size=1 << 32)
    app.router.add_route("*", "/{path:.*}", Store(seconds).answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, backlog=1024)
    await site.start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(float(sys.argv[1]) / 1000))
