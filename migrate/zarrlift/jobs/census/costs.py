"""What a migration of all archives takes: requests, bytes, time, and money by a table of prices.

A table is a TOML file; every entry is optional and counts as 0 if it is missing:

    currency = "USD"

    [source]
    list = 0.005          # 1,000 listing requests
    get = 0.0004          # 1,000 requests that read
    transfer = 0.02       # 1 GB (10^9 bytes) that leaves the store

    [destination]
    put = 0.005           # 1,000 requests that write
    storage = 0.023       # 1 GB for one month

    [machine]
    hour = 0.10           # one hour of the machines that reach the rate together
"""

from __future__ import annotations

import math
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any, Final, Self

from zarrstack.core.errors import JoinedProblems, UsageError

_TABLES: Final[Mapping[str, tuple[str, ...]]] = {
    "source": ("list", "get", "transfer"),
    "destination": ("put", "storage"),
    "machine": ("hour",),
}
_PAGE: Final = 1000
"""Number of objects in an answer to a listing request, in S3 and most other stores."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """A table of prices, by table and name."""

    currency: str
    prices: Mapping[str, Mapping[str, float]]

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """The table in a TOML file; raises one UsageError with all problems."""
        try:
            with open(path, "rb") as file:
                data = tomllib.loads(file.read().decode())
        except OSError as error:
            found = f"{os.fspath(path)}: {error.strerror}"
            raise UsageError("cannot read the table of prices", found=found) from error
        except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            found = f"{os.fspath(path)}: {error}"
            raise UsageError("the table of prices is not valid TOML", found=found) from error
        return cls.parse(data, name=os.fspath(path))

    @classmethod
    def parse(cls, data: Mapping[str, Any], *, name: str = "prices") -> Self:
        """The table in a parsed document; errors as for `load`."""
        problems: list[str] = []
        currency = data.get("currency", "")
        if not isinstance(currency, str):
            problems.append(f"currency: a text is expected, found {currency!r}")
        prices: dict[str, dict[str, float]] = {}
        for table, entries in data.items():
            if table == "currency":
                continue
            if table not in _TABLES or not isinstance(entries, dict):
                problems.append(_unknown(table, ("currency", *_TABLES)))
                continue
            prices[table] = {}
            for entry, price in entries.items():
                if entry not in _TABLES[table]:
                    problems.append(
                        _unknown(f"{table}.{entry}", [f"{table}.{each}" for each in _TABLES[table]])
                    )
                elif (
                    isinstance(price, bool) or not isinstance(price, int | float) or not 0 <= price < math.inf
                ):
                    problems.append(f"{table}.{entry}: a price of at least 0 is expected, found {price!r}")
                else:
                    prices[table][entry] = float(price)
        if problems:
            count = "a problem" if len(problems) == 1 else f"{len(problems)} problems"
            raise UsageError(
                JoinedProblems.of(problems, before=f"the table of prices has {count}: "), found=name
            )
        return cls(currency=currency, prices=prices)

    def of(self, table: str, entry: str) -> float:
        """A price; 0 if the table does not have it."""
        return self.prices.get(table, {}).get(entry, 0.0)


def _unknown(name: str, known: Any) -> str:
    near = get_close_matches(name, known, 1)
    return f"{name}: unknown name" + (
        f"; did you mean {near[0]!r}?" if near else f"; known: {', '.join(known)}"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Money:
    """The price of a migration."""

    currency: str
    """As in the table; may be empty."""
    requests: float
    transfer: float
    machine: float
    """0 if the time is unknown."""
    storage: float
    """Of the result, for each month."""

    @property
    def once(self) -> float:
        """What is paid once."""
        return self.requests + self.transfer + self.machine

    def to_json(self) -> dict[str, Any]:
        """The price as JSON."""
        return {**{name: getattr(self, name) for name in self.__slots__}, "once": self.once}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Amounts of a migration to a new place, without verification beyond the default sample."""

    lists: int = 0
    """Requests that list the source, of 1,000 objects each."""
    reads: int = 0
    """Requests that read chunks, shards and documents of the source."""
    writes: int = 0
    """Requests that write objects and documents of the result."""
    bytes_read: int = 0
    bytes_written: int = 0
    """An estimate, unless chunks are copied unchanged."""
    bytes_known: bool = True
    """Whether `bytes_written` is not an estimate."""
    rate: float | None = None
    """Bytes read per second; None if it was neither given nor measured."""
    seconds: float | None = None
    """Time at this rate."""
    money: Money | None = None

    def at(self, rate: float | None, prices: Prices | None) -> Cost:
        """The same with time and money."""
        seconds = None if rate is None else self.bytes_read / rate
        money = None
        if prices is not None:
            by_request = prices.of("source", "list") * self.lists + prices.of("source", "get") * self.reads
            by_request += prices.of("destination", "put") * self.writes
            money = Money(
                currency=prices.currency,
                requests=by_request / 1000,
                transfer=prices.of("source", "transfer") * self.bytes_read / 1e9,
                machine=prices.of("machine", "hour") * (seconds or 0.0) / 3600,
                storage=prices.of("destination", "storage") * self.bytes_written / 1e9,
            )
        return replace(self, rate=rate, seconds=seconds, money=money)

    def to_json(self) -> dict[str, Any]:
        """The cost as JSON."""
        data = {name: getattr(self, name) for name in self.__slots__}
        return {**data, "money": None if self.money is None else self.money.to_json()}


def listing_requests(objects: int) -> int:
    """The number of requests that list the objects of one array."""
    return max(1, -(-objects // _PAGE))
