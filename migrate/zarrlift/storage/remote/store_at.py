"""Opens the store of a URL: of S3, Google and Azure with obstore (`buckets`), any other with fsspec."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from zarrstack.core.errors import StorageError, UsageError, ZarrstackError

from ..redact import redact, redact_foreign, secrets_of
from .bucket_storage import BucketStorage
from .buckets import bucket_store
from .error_text import plainly
from .http_storage import HttpStorage
from .redirects import guarded
from .store_storage import HTTP, StoreStorage, protocols

if TYPE_CHECKING:
    from zarr.abc.store import Store

_ABSENT: Final = "absent_status"
"""Our own option of `http://` and `https://`: further statuses that say that an object is missing."""


def store_at(url: str, options: Mapping[str, Any] | None, *, read_only: bool) -> StoreStorage:
    """The store of a URL that names no path of this machine, whatever objects are there.

    UsageError, or StorageError if it cannot be opened.
    """
    from zarr.storage import FsspecStore

    secrets = secrets_of(options)
    redacted = redact(url, secrets)
    if not redacted.endswith("://"):  # the root of a file system without names: reference://
        redacted = redacted.rstrip("/")
    protocol = url.split("::", 1)[0].split("://", 1)[0]
    if "::" not in url:
        try:
            bucket = bucket_store(url, options or {}, read_only=read_only)
        except ZarrstackError:
            raise
        except Exception as error:
            raise _unopened(error, redacted, secrets) from error
        if bucket is not None:
            return BucketStorage(*bucket, url=redacted, secrets=secrets)
    try:
        # Our own instance: a shared one may be bound to another event loop.
        fsspec_options = {"skip_instance_cache": True, **(options or {})}
        absent = _statuses(fsspec_options.pop(_ABSENT, None)) if protocol in HTTP else frozenset()
        for link in {part.split("://", 1)[0] for part in url.split("::")[1:]} & HTTP:
            fsspec_options[link] = guarded(fsspec_options.get(link) or {})
        store = FsspecStore.from_url(url, storage_options=fsspec_options, read_only=read_only)
    except UsageError:
        raise
    except ImportError as error:
        from ..not_an_archive import no_package

        raise no_package(protocol, redact_foreign(str(error))) from error
    except ValueError as error:
        found = redact_foreign(f"{redacted} ({error})")
        raise UsageError("not a place", found=found, expected="a path or a URL that fsspec knows") from error
    except (FileNotFoundError, NotADirectoryError) as error:
        raise UsageError(f"no such file or directory: {redacted}") from error
    except Exception as error:
        raise _unopened(error, redacted, secrets) from error
    if protocols(store) & HTTP:
        return HttpStorage(store, url=redacted, secrets=secrets, absent=absent)
    return StoreStorage(store, url=redacted, secrets=secrets)


def storage_of(store: Store, path: str = "") -> StoreStorage:
    """The storage of a store that is given as an object."""
    from zarr.storage import FsspecStore, ObjectStore

    if type(store) is ObjectStore:
        return BucketStorage(store, path)
    if type(store) is FsspecStore and protocols(store) & HTTP:
        return HttpStorage(store, path)
    return StoreStorage(store, path)


def _unopened(error: Exception, url: str, secrets: Sequence[str]) -> ZarrstackError:
    """The error for a location whose client cannot be made, for example of damaged credentials."""
    plain = plainly(error, f"cannot open the location {url}", "", url, secrets)
    if plain.problem.advice is not None:
        return plain
    return StorageError(plain.problem.message, found=plain.problem.found, advice="Check the storage options.")


def _statuses(option: object) -> frozenset[int]:
    """The values of the option `absent_status`; UsageError for others than one of 401, 403 and 410."""
    values = [] if option is None else option if isinstance(option, list) else [option]
    texts = [str(value) for value in values]
    if not {"401", "403", "410"}.issuperset(texts):
        raise UsageError(f"invalid storage option {_ABSENT}", found=str(option), expected="401, 403 or 410")
    return frozenset(map(int, texts))
