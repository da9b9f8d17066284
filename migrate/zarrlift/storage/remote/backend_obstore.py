"""Object stores through obstore, which takes a third of the processor time of s3fs per request.

zarr-python provides the store (`zarr.storage.ObjectStore`); this module adds further capabilities, and
translates the options of s3fs. Options that cannot be translated are left to s3fs.

Sources: obstore 0.12 (https://developmentseed.org/obstore), the options of s3fs 2026.9
(https://s3fs.readthedocs.io/en/latest/api.html), and the variables that botocore reads
(https://docs.aws.amazon.com/sdkref/latest/guide/settings-reference.html).
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from ..limits import PARTS_AT_ONCE
from ..listed_versions import Version, source_object_changed, version_number
from ..listing import ListedPage
from .backend import Backend, part_size, version_text, version_texts
from .parallel_listing import Pages, lists_ranges, pages_in_ranges

if TYPE_CHECKING:
    from zarr.abc.store import ByteRequest, Store

    from ..local.files import ReadLimit

_MAX_COPIED: Final = 5 << 30
"""Maximum number of bytes that S3 copies in one request
(https://docs.aws.amazon.com/AmazonS3/latest/API/API_CopyObject.html).
"""
_PAGE: Final = 1000
"""Objects per batch of a listing, the number in one request to S3."""
_PAGES: Final = 10 * _PAGE
"""Objects per batch of a long listing."""
_RETRIES: Final = 3
"""Retries after a broken connection or a 5xx, 0.1 s to 0.4 s apart; `ConcurrencyLimiter` repeats longer
failures.
"""
_LONGEST: Final = timedelta(minutes=15)
"""Timeout of a whole request including its body. obstore's 30 s are too short for large objects on slow
lines.
"""
_SILENT: Final = timedelta(minutes=3)
"""Timeout for the next byte; the store may take that long to copy a large object."""
_FRESH: Final = timedelta(minutes=5)
"""Lifetime of credentials without an expiry time."""

_PLAIN: Final = {
    "key": "access_key_id",
    "username": "access_key_id",
    "secret": "secret_access_key",
    "password": "secret_access_key",
    "token": "session_token",
    "endpoint_url": "endpoint",
    "anon": "skip_signature",
    "requester_pays": "request_payer",
}
"""Options of s3fs -> obstore's names."""
_OF_CLIENT: Final = {"endpoint_url": "endpoint", "region_name": "region"}
"""The same for its `client_kwargs`."""
_PLACE: Final = {
    "endpoint": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
    "region": ("AWS_REGION", "AWS_DEFAULT_REGION"),
}
_WHO: Final = {
    "access_key_id": ("AWS_ACCESS_KEY_ID",),
    "secret_access_key": ("AWS_SECRET_ACCESS_KEY",),
    "session_token": ("AWS_SESSION_TOKEN",),
}
_ELSEWHERE: Final = (
    *("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "AWS_CA_BUNDLE"),
    *("AWS_USE_DUALSTACK_ENDPOINT", "AWS_USE_FIPS_ENDPOINT"),
)
"""Variables with a meaning for botocore and none here."""
_MORE: Final = ("endpoint_url", "services", "s3 =", "s3=", "ca_bundle", "use_dualstack", "use_fips")
"""The same for its profile file."""


class ObstoreBackend(Backend):
    """An obstore store."""

    def __init__(self, store: Any) -> None:
        """`store` is a `zarr.storage.ObjectStore`."""
        self.store = store
        self._below = store.store
        self._etags_differ = False

    async def read(self, key: str, bound: ReadLimit, version: Version | None = None) -> bytes | None:
        """One request, which gives size and ETag before the bytes."""
        import obstore

        try:
            answer = await obstore.get_async(self._below, key)
        except FileNotFoundError:
            return None
        await self._require(key, answer.meta["e_tag"], version)
        bound.check(answer.meta["size"])
        return bytes(await answer.bytes_async())

    async def read_part(self, key: str, part: ByteRequest, version: Version | None = None) -> bytes | None:
        """Like the generic method, unless the ETag must be compared."""
        from zarr.abc.store import RangeByteRequest

        if version is None or not isinstance(part, RangeByteRequest):
            return await super().read_part(key, part)
        import obstore

        try:
            answer = await obstore.get_async(self._below, key, options={"range": (part.start, part.end)})
        except FileNotFoundError:
            return None
        await self._require(key, answer.meta["e_tag"], version)
        return bytes(await answer.bytes_async())

    async def _require(self, key: str, etag: str | None, version: Version | None) -> None:
        """Raise SourceChangedError if an object's ETag differs from the listed one."""
        if version is None or etag is None or self._etags_differ:
            return
        if version_number(version_text(etag) or "") == version[1]:
            return
        # Some servers have other ETags in their listings, or only times: the listing is decisive.
        async for page in self._pages(key.rpartition("/")[0], _PAGE, offset=key[:-1]):
            if key in page.keys:
                assert page.versions is not None
                now = page.versions[page.keys.index(key)]
                self._etags_differ = now is not None and version_number(now) == version[1]
            if page.keys[-1] >= key:
                break
        if not self._etags_differ:
            raise source_object_changed()

    async def children(self, prefix: str) -> dict[str, bool]:
        """A listing with a delimiter, with as many requests as it has pages."""
        import obstore

        found: Any = await obstore.list_with_delimiter_async(self._below, prefix or None)
        own = prefix.strip("/")
        # Some tools create an empty object for a directory.
        objects = [item["path"].strip("/") for item in found["objects"]]
        names = {path.rsplit("/", 1)[-1]: False for path in objects if path != own}
        return names | {path.strip("/").rsplit("/", 1)[-1]: True for path in found["common_prefixes"]}

    def pages(
        self, prefix: str, keys: Callable[[], Sequence[str]] | None = None
    ) -> AsyncIterator[ListedPage]:
        """Objects as the store lists them; with ETags if available, else times."""
        place = prefix.strip("/")
        if keys is None or not lists_ranges(self._below):
            return self._pages(place, _PAGES)
        return pages_in_ranges(lambda start: self._pages(place, 2 * _PAGE, start), keys)

    async def _pages(self, prefix: str, size: int, offset: str | None = None) -> Pages:
        import obstore

        found: Any = obstore.list(
            self._below, prefix or None, offset=offset or None, chunk_size=size, return_arrow=has_arrow()
        )
        async for part in found:
            keys, tags = _column(part, "path"), _column(part, "e_tag")
            sizes = _column(part, "size") if isinstance(part, list) else part.column("size").to_numpy()
            if None in tags:
                times = _column(part, "last_modified")
                tags = [tag or time for tag, time in zip(tags, times, strict=True)]
            yield ListedPage(keys, sizes, version_texts(tags))

    async def put_file(self, key: str, name: str, size: int) -> None:
        """Send parts that take little memory, two at a time."""
        import obstore

        part = part_size(size)
        await obstore.put_async(
            self._below, key, Path(name), chunk_size=part, max_concurrency=PARTS_AT_ONCE, use_multipart=True
        )

    @property
    def creates(self) -> bool:
        """True for every obstore store except HTTP."""
        return type(self._below).__name__ != "HTTPStore"

    async def create(self, key: str, data: bytes) -> None:
        """Create with `If-None-Match: *`, or the store's equivalent."""
        import obstore

        await obstore.put_async(self._below, key, data, mode="create", use_multipart=False)

    async def copy(self, source: Backend, before: str, after: str, size: int) -> None:
        """Copy within the store, in one request."""
        import obstore

        if size > _MAX_COPIED:
            raise NotImplementedError
        await obstore.copy_async(self._below, before, after)

    @property
    def identity(self) -> tuple[object, ...]:
        """Kind, location within it, and configuration including credentials."""
        below = self._below
        names = ("prefix", "config", "client_options", "credential_provider")
        return type(below), *(getattr(below, name, None) for name in names)


def s3_store(url: str, options: Mapping[str, Any], *, read_only: bool) -> tuple[Store, str] | None:
    """The bucket of an `s3://` URL and the path in it; None if s3fs must be used.

    That is the case without obstore, for an option or setting without a counterpart, and if no credentials
    are found in the way of s3fs.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("s3", "s3a") or not parts.hostname or "@" in parts.netloc or parts.query:
        return None
    if parts.fragment:
        return None  # "#" is part of a key, which urlsplit does not support
    try:
        from obstore.store import S3Store
        from zarr.storage import ObjectStore
    except ImportError:
        return None
    settings = _settings(options)
    if settings is None:
        return None
    bucket = parts.netloc
    provider = None
    if not settings.get("skip_signature") and "secret_access_key" not in settings:
        found = _from_botocore(options.get("profile"))
        if found is None:
            return None
        provider, more = found
        settings = {**more, **settings}
    if "region" not in settings:
        settings["region"] = "us-east-1" if "endpoint" in settings else _region_of(bucket)
    if settings["region"] is None:
        return None
    given: dict[str, Any] = dict(settings)
    if provider is not None:
        given["credential_provider"] = provider
    given["client_options"] = {
        "allow_http": str(settings.get("endpoint", "")).startswith("http://"),
        "timeout": _LONGEST,
        "read_timeout": _SILENT,
    }
    store: Any = S3Store(bucket, retry_config={"max_retries": _RETRIES}, **given)
    return ObjectStore(store, read_only=read_only), parts.path.strip("/")


def _settings(options: Mapping[str, Any]) -> dict[str, Any] | None:
    """The options under obstore's names, with those of the environment; None without a counterpart."""
    settings: dict[str, Any] = {}
    for name, value in options.items():
        if name in ("skip_instance_cache", "profile") or value is None:
            continue
        if name == "client_kwargs" and isinstance(value, dict) and value.keys() <= _OF_CLIENT.keys():
            settings |= {_OF_CLIENT[inner]: each for inner, each in value.items()}
        elif name in _PLAIN:
            settings[_PLAIN[name]] = value
        else:
            return None
    # If the options contain credentials, those of the environment are ignored.
    named = settings.get("skip_signature") or "access_key_id" in settings or options.get("profile")
    for name, variables in (_PLACE if named else _PLACE | _WHO).items():
        value = next((os.environ[variable] for variable in variables if os.environ.get(variable)), None)
        if value is not None:
            settings.setdefault(name, value)
    if ("access_key_id" in settings) != ("secret_access_key" in settings):
        return None
    plain = str(settings.get("endpoint", "")).startswith("http://")
    if any(os.environ.get(name) for name in _ELSEWHERE if name != "AWS_CA_BUNDLE" or not plain):
        return None
    if "endpoint" not in settings and _configured():
        return None
    return {name: value for name, value in settings.items() if value is not False}


def _configured() -> bool:
    """Whether botocore's profile file has S3 settings other than credentials and region."""
    path = Path(os.environ.get("AWS_CONFIG_FILE") or "~/.aws/config").expanduser()
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError):
        return path.exists()
    return any(word in text for word in _MORE)


def _from_botocore(profile: str | None) -> tuple[Callable[[], Any], dict[str, Any]] | None:
    """Credentials as s3fs finds them (profiles, roles, instance metadata), and the profile's region.

    None without botocore, or if there are none.
    """
    try:
        botocore = import_module("botocore.session")  # a dependency of s3fs
    except ImportError:
        return None
    try:
        session = botocore.Session(profile=profile)
        credentials = session.get_credentials()
        region = session.get_config_variable("region")
    except Exception:  # noqa: BLE001 - s3fs will meet the same, and say so
        return None
    if credentials is None:
        return None

    def provide() -> dict[str, Any]:
        frozen = credentials.get_frozen_credentials()
        return {
            "access_key_id": frozen.access_key,
            "secret_access_key": frozen.secret_key,
            "token": frozen.token,
            "expires_at": datetime.now(UTC) + _FRESH,
        }

    return provide, {} if region is None else {"region": region}


def _region_of(bucket: str) -> str | None:
    """The region of a bucket, which S3 reveals without credentials; None if it does not."""
    from http.client import HTTPSConnection

    # Names of buckets with dots do not match the certificate, so the name is not used as a host.
    asked = HTTPSConnection("s3.amazonaws.com", timeout=10)
    try:
        asked.request("HEAD", f"/{bucket}")
        return asked.getresponse().getheader("x-amz-bucket-region")
    except OSError:
        return None
    finally:
        asked.close()


def _column(page: Any, name: str) -> list[Any]:
    """A property of the objects in a page, which is a list of dictionaries or an Arrow batch."""
    found: list[Any] = (
        [item[name] for item in page] if isinstance(page, list) else page.column(name).to_pylist()
    )
    return found


@cache
def has_arrow() -> bool:
    """Whether listings can be made without an object of Python for each property of each object."""
    return find_spec("arro3") is not None
