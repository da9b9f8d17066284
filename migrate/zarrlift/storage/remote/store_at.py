"""Opens the store of a URL: with obstore where it can, else with fsspec."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from zarrstack.core.errors import StorageError, UsageError

from ..redact import redact, redact_foreign, secrets_of
from .obstore_urls import obstore_store
from .zarr_store import StoreStorage


def store_at(url: str, options: Mapping[str, Any] | None, *, read_only: bool) -> StoreStorage:
    """The store of a URL that names no path of this machine, whatever objects are there.

    UsageError, or StorageError if it cannot be opened.
    """
    from zarr.storage import FsspecStore

    secrets = secrets_of(options)
    shown = redact(url, secrets)
    if not shown.endswith("://"):  # the root of a file system without names: reference://
        shown = shown.rstrip("/")
    protocol = url.split("::", 1)[0].split("://", 1)[0]
    if "::" not in url:
        try:
            bucket = obstore_store(url, options or {}, read_only=read_only)
        except Exception as error:
            found = redact_foreign(f"{shown} ({type(error).__name__}: {error})")
            raise StorageError("cannot open the location", found=found) from error
        if bucket is not None:
            return StoreStorage(*bucket, url=shown, secrets=secrets)
    try:
        # Our own instance: a shared one may be bound to another event loop.
        given = {"skip_instance_cache": True, **(options or {})}
        store = FsspecStore.from_url(url, storage_options=given, read_only=read_only)
    except ImportError as error:
        from ..open_errors import no_package

        raise no_package(protocol, redact_foreign(str(error))) from error
    except ValueError as error:
        found = redact_foreign(f"{shown} ({error})")
        raise UsageError("not a place", found=found, expected="a path or a URL that fsspec knows") from error
    except (FileNotFoundError, NotADirectoryError) as error:
        raise UsageError(f"no such file or directory: {shown}") from error
    except Exception as error:
        found = redact_foreign(f"{shown} ({type(error).__name__}: {error})")
        raise StorageError("cannot open the location", found=found) from error
    return StoreStorage(store, url=shown, secrets=secrets)
