"""A long listing is divided into ranges of keys; the result is that of one listing."""

from __future__ import annotations

import asyncio
import json
from bisect import bisect_right
from collections.abc import AsyncGenerator, Sequence
from itertools import product
from typing import Any

import pytest
from aiohttp import web
from tests.support.bucket import Bucket

import zarrlift
from zarrlift.storage.base import ListedPage
from zarrlift.storage.remote import parallel_listing
from zarrlift.storage.remote.parallel_listing import UnorderedListingError, pages_in_ranges

NAMES = {
    "dots": [f"a/{i}.{j}" for i, j in product(range(120), range(110))],
    "nested": [f"a/c/{i}/{j}" for i, j in product(range(120), range(110))],
    "few rows": [f"a/{i}/{j}" for i, j in product(range(2), range(6000))],
}


class Listing:
    """A store's keys in pages of 100, and how many listings were under way at once."""

    def __init__(self, names: Sequence[str], *, starts: bool = True) -> None:
        self.names, self.starts = names, starts
        self.now = self.most = self.pages = 0

    async def after(self, start: str) -> AsyncGenerator[ListedPage, None]:
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            first = bisect_right(self.names, start) if self.starts else 0
            for at in range(first, len(self.names), 100):
                await asyncio.sleep(0)
                self.pages += 1
                yield ListedPage(self.names[at : at + 100])
        finally:
            self.now -= 1

    async def all(self, sample: Sequence[str]) -> list[str]:
        return [key async for page in pages_in_ranges(self.after, lambda: sample) for key in page.keys]


@pytest.fixture(autouse=True)
def _early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel_listing, "_ALONE", 300)


@pytest.mark.parametrize("names", NAMES.values(), ids=NAMES)
@pytest.mark.parametrize("stored", [1, 7])
def test_every_key_is_listed_once(names: list[str], stored: int) -> None:
    there = sorted([*names[::stored], "a/.zarray", "a/zz"])
    listing = Listing(there)
    found = asyncio.run(listing.all(names[::37]))
    assert sorted(found) == there
    assert 4 < listing.most <= 8
    assert listing.pages <= len(there) // 100 + 2 * 32 + 3


def test_a_short_listing_is_not_divided() -> None:
    listing = Listing(sorted(NAMES["dots"])[:290])
    assert len(asyncio.run(listing.all(NAMES["dots"]))) == 290
    assert (listing.most, listing.pages) == (1, 3)


@pytest.mark.parametrize(
    "listing",
    [Listing(NAMES["dots"]), Listing(sorted(NAMES["dots"]), starts=False)],
    ids=["another order", "always from the first"],
)
def test_a_store_that_cannot_list_ranges_is_noticed(listing: Listing) -> None:
    with pytest.raises(UnorderedListingError):
        asyncio.run(listing.all(NAMES["dots"]))


def grid(bucket: Bucket) -> str:
    """The URL of an array of 30 x 40 chunks."""
    document = {"zarr_format": 2, "shape": [30, 40], "chunks": [1, 1], "dtype": "|u1", "order": "C"}
    document |= {"compressor": None, "filters": None, "fill_value": 0}
    content = {f"{i}.{j}": bytes([i]) for i, j in product(range(30), range(40))}
    content |= {f"stray-{name}": b"" for name in range(9)}
    return bucket.put("a.zarr", {".zarray": json.dumps(document).encode(), **content})


def plans(url: str, bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    """How often the bucket is listed for a plan, in ranges and without; the plans are equal."""
    listed = [0]

    def note(request: web.Request) -> None:
        listed[0] += "list-type" in request.query or request.query.get("comp") == "list"

    bucket.instead = note
    divided = zarrlift.plan(url, storage_options=bucket.options)
    in_ranges, listed[0] = listed[0], 0
    monkeypatch.setattr(parallel_listing, "_ALONE", 1 << 40)
    assert zarrlift.plan(url, storage_options=bucket.options).to_json() == divided.to_json()
    assert divided.arrays[0].chunks == 30 * 40
    return in_ranges, listed[0]


@pytest.mark.slow(one_in=3)
def test_the_plan_does_not_depend_on_it(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    """Azure has no order to start at; there, a listing is never divided."""
    in_ranges, at_once = plans(grid(bucket), bucket, monkeypatch)
    assert in_ranges == at_once > 0 if bucket.server.scheme == "az" else in_ranges > at_once


def test_a_server_that_passes_over_the_start_is_listed_at_once(
    our_bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = our_bucket.store.bucket

    def deaf(request: Any, *rest: Any) -> Any:
        return answer(request.clone(rel_url=request.rel_url.without_query_params("start-after")), *rest)

    monkeypatch.setattr(our_bucket.store, "bucket", deaf)
    in_ranges, at_once = plans(grid(our_bucket), our_bucket, monkeypatch)
    assert in_ranges > at_once, "the ranges are tried first"
