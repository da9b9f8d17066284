"""The digests of an archive, and the differences between those of two archives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Final, Self

from zarrstack.core.errors import MetadataError, Problem
from zarrstack.core.json_text import JSON, JSONObject, excerpt

from ..core.data_types.compare import region_text
from ..core.data_types.v3 import DataType
from ..core.digest.value_digest import ArrayDigest
from ..core.problems import refusal
from .report import VerificationReport

_LISTED: Final = 10
"""Differing blocks listed per array."""
_VERSION: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveDigest:
    """The digests of the values of an archive's arrays.

    Examples
    --------
    >>> digests = zarrlift.digest("ocean.zarr")
    >>> sorted(digests.arrays), digests.problems
    (['lat', 'lon', 'sst', 'time'], ())
    """

    url: str
    format: str
    arrays: Mapping[str, ArrayDigest] = field(default_factory=dict)
    """Digests by path of the array."""
    problems: tuple[Problem, ...] = ()
    """Why other arrays have no digest."""

    def to_json(self) -> JSONObject:
        """JSON for files and machines; member names are stable."""
        return {
            "digests": _VERSION,
            "url": self.url,
            "format": self.format,
            "arrays": {path: digest.to_json() for path, digest in sorted(self.arrays.items())},
            "problems": [problem.to_json() for problem in self.problems],
        }

    @classmethod
    def from_json(cls, data: JSON) -> Self:
        """Inverse of `to_json`; MetadataError for anything else.

        A document that a command printed with `--json` is accepted too.
        """
        if isinstance(data, dict) and "zarrlift" in data:
            data = data.get("result")
        if not isinstance(data, dict) or data.get("digests") != _VERSION:
            raise MetadataError(
                "these are not digests of arrays",
                found=excerpt(data),
                expected=f'{{"digests": {_VERSION}, ...}}',
            )
        try:
            arrays: dict[str, ArrayDigest] = {}
            for path, digest in data["arrays"].items():
                try:
                    arrays[path] = ArrayDigest.from_json(digest)
                except MetadataError as error:
                    raise error.at(node=path) from None
            problems = tuple(map(Problem.from_json, data["problems"]))
            return cls(url=data["url"], format=data["format"], arrays=arrays, problems=problems)
        except (KeyError, TypeError, AttributeError) as error:
            raise MetadataError("these are not digests of arrays", found=excerpt(data)) from error


def compare_digests(found: ArchiveDigest, expected: ArchiveDigest) -> VerificationReport:
    """The differences of an archive's digests from those of another one, by array and block."""
    differences: dict[str, int] = {}
    problems: list[Problem] = []
    unread = {problem.node: problem for problem in found.problems}
    for path in sorted(found.arrays.keys() | expected.arrays.keys()):
        mine, theirs = found.arrays.get(path), expected.arrays.get(path)
        if mine is not None and theirs is not None:
            of_array = _differences(path, mine, theirs)
        elif theirs is None:
            of_array = [
                _problem(path, "an array has no expected digest", "an array", "none", kind="verify-structure")
            ]
        elif path in unread:
            of_array = [unread[path]]
        else:
            of_array = [_problem(path, "an array is missing", "nothing", "an array", kind="verify-structure")]
        if of_array:
            differences[path] = len(of_array)
            problems += of_array[:_LISTED]
    # Arrays without a digest on either side are not verified.
    for problem in found.problems:
        path = problem.node or ""
        if path not in differences:
            differences[path] = 1
            problems.append(problem)
    compared = found.arrays.keys() & expected.arrays.keys()
    return VerificationReport(
        source=expected.url,
        destination=found.url,
        full=True,
        arrays=len(compared),
        chunks=sum(found.arrays[path].grid.total for path in compared),
        bytes=sum(_bytes(found.arrays[path]) for path in compared),
        differences=tuple(sorted(differences.items())),
        problems=tuple(problems),
    )


def _differences(path: str, found: ArrayDigest, expected: ArrayDigest) -> list[Problem]:
    for name in ("shape", "data_type", "fill_value"):
        mine, theirs = getattr(found, name), getattr(expected, name)
        if mine != theirs:
            label = name.replace("_", " ")
            return [_problem(path, f"the {label} differs", _text(mine), _text(theirs))]
    grid = found.grid
    return [
        _problem(
            path,
            f"values differ in {region_text(grid.region(grid.coordinates(block)))}",
            *(f"sum {digest.blocks.get(block, 0):x}" for digest in (found, expected)),
        )
        for block in found.differing_blocks(expected)
    ]


def _bytes(digest: ArrayDigest) -> int:
    return prod(digest.shape) * (DataType.from_json(digest.data_type).itemsize or 0)


def _text(value: object) -> str:
    return str(list(value)) if isinstance(value, tuple) else str(value)


def _problem(path: str, message: str, found: str, expected: str, *, kind: str = "verify-values") -> Problem:
    return refusal(kind, message, node=path, found=found, expected=expected)
