"""References in kerchunk's JSON form, version 1.

Form: https://fsspec.github.io/kerchunk/spec.html. Zarr v3 and Zarr v2 documents name the same chunk keys: what
was written for kerchunk reads Zarr v2 only (its xarray engine, 0.2.10), zarr-python 3 reads both.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from zarrstack.core.errors import UsageError
from zarrstack.core.grid.chunk_keys_v3 import KeyEncoding
from zarrstack.core.json_text import JSONObject, document

from ...storage.open_storage import is_url, open_storage
from ...transfer.object_keys import ObjectKeys
from .output import ReferenceOutput

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...planning.plans import ArrayPlan
    from ...storage.base import Storage
    from ...transfer.references import ConvertedChunk, References
    from ...transfer.referred_objects import ReferredPlace, Version

SUFFIX: Final = ".json"
_PACKAGES: Final = {"s3": "s3fs", "gs": "gcsfs"}


class KerchunkJson(ReferenceOutput):
    """A JSON file."""

    keys = KeyEncoding("v2", ".")
    keeps_versions = False

    def __init__(
        self,
        destination: str,
        options: Mapping[str, Any] | None,
        source: ReferredPlace,
        source_options: Mapping[str, Any] | None,
    ) -> None:
        """`options` are those of the destination's storage."""
        folder, slash, self._name = destination.rpartition("/")
        if not is_url(destination):
            folder = folder or ("/" if slash else ".")
        self._folder = open_storage(folder, storage_options=options, mode="w")
        self.url = f"{self._folder.url.rstrip('/')}/{self._name}"
        self.source = source
        self._source_options = dict(source_options or {})
        self._refs: dict[str, Any] = {}

    def refuse_existing(self) -> None:
        """Raise UsageError if there is such a file."""
        if self._folder.size(self._name) is not None:
            raise UsageError(
                f"the destination exists: {self.url}", advice="Choose another place, or delete what is there."
            )

    def document(self, key: str, content: JSONObject) -> None:
        """Receive a document."""
        self._refs[key] = document(content).decode()

    def refer(self, array: ArrayPlan, found: References, versions: Sequence[Version | None]) -> None:  # noqa: ARG002 - kerchunk has no place for them
        """Receive references."""
        keys = ObjectKeys(array.destination, array.path)(found.places)
        urls = self.source.urls(found.keys)
        ranges = zip(urls, found.offsets.tolist(), found.lengths.tolist(), strict=True)
        self._refs.update(zip(keys, map(list, ranges), strict=True))

    def store(self, array: ArrayPlan, chunk: ConvertedChunk) -> None:
        """Receive a chunk."""
        key = array.destination.key(array.path, chunk.place)
        self._refs[key] = "base64:" + base64.b64encode(chunk.data).decode()

    def drop(self, path: str) -> None:
        """Forget an array."""
        start = f"{path}/" if path else ""
        self._refs = {key: value for key, value in self._refs.items() if not key.startswith(start)}

    def storage(self) -> Storage:
        """The references as fsspec resolves them."""
        return open_storage(self._store)

    @cached_property
    def _store(self) -> Any:
        import fsspec
        from zarr.storage import FsspecStore

        try:
            files = fsspec.filesystem(
                "reference",
                fo=self._refs,
                remote_protocol=self.source.scheme,
                remote_options={**self._source_options, **self._asynchronous},
                asynchronous=True,
                skip_instance_cache=True,
            )
        except ImportError as error:
            raise UsageError(
                "references cannot be checked without the package that readers need",
                found=str(error),
                expected=_PACKAGES.get(self.source.scheme, self.source.scheme),
                advice="Install it, or use --verify none.",
            ) from error
        return FsspecStore(files, read_only=True, path="")

    @property
    def _asynchronous(self) -> dict[str, Any]:
        return {} if self.source.scheme == "file" else {"asynchronous": True, "skip_instance_cache": True}

    def publish(self, message: str) -> int:  # noqa: ARG002 - a file has no history
        """Write the file."""
        text = json.dumps({"version": 1, "refs": self._refs}, ensure_ascii=False, separators=(",", ":"))
        data = text.encode("utf-8", "surrogatepass")
        self._folder.put(self._name, data)
        return len(data)

    def how_to_open(self) -> str:
        """Python that opens the result."""
        options = {"fo": self.url, "remote_protocol": self.source.scheme}
        return f"zarr.open_group('reference://', mode='r', storage_options={options!r})"
