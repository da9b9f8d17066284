"""Detects cycles of links and references.

hdmf-zarr reads a group with everything below it before it registers the group, and follows links and
attribute references in the process (0.11 to 0.14, `ZarrIO.__read_group`): a path back to a group that is
still being read results in endless recursion.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from zarrstack.core.paths import join

from ..base import View


def reference_cycles(
    view: View, ways: Mapping[str, Sequence[str]], without: str | None
) -> Iterator[tuple[str, str]]:
    """(node whose link or reference closes the cycle, the cycle as text) for each cycle found.

    `ways` are the links and references by node; `without` is a group that is not read.
    """
    done: set[str] = set()
    trail: list[str] = []
    on_trail: set[str] = set()
    waiting: list[tuple[str, Iterator[str]]] = []

    def enter(path: str) -> None:
        trail.append(path)
        on_trail.add(path)
        below = (join(path, name) for name in view.children(path))
        steps = [*ways.get(path, ()), *(child for child in below if child != without)]
        waiting.append((path, iter(steps)))

    for start in view.nodes:
        if start not in done:
            enter(start)
        while waiting:
            path, steps = waiting[-1]
            step = next(steps, None)
            if step is None:
                waiting.pop()
                trail.pop()
                on_trail.discard(path)
                done.add(path)
            elif step in on_trail:
                circle = [*trail[trail.index(step) :], step]
                yield _closer(circle, ways), " -> ".join(f"/{name}" for name in circle)[:300]
            elif step not in done:
                enter(step)


def _closer(circle: Sequence[str], ways: Mapping[str, Sequence[str]]) -> str:
    """The node of the last step that is a link or reference, since nesting alone closes no cycle."""
    pairs = list(pairwise(circle))
    return next(before for before, after in reversed(pairs) if after in ways.get(before, ()))
