"""Time left, by what is left of each route: with a simulated clock and scripted durations."""

from __future__ import annotations

import heapq
import random
from collections import Counter
from itertools import chain, zip_longest

import pytest

from zarrlift.jobs.work_totals import RouteRates, work_of

MB = 1_000_000
TASK = 50 * MB
Tasks = list[tuple[str, float]]
"""(route, seconds of one worker) of tasks of 50 MB each."""


def tasks(route: str, count: int, seconds: float) -> Tasks:
    chance = random.Random(f"{route} {count}")  # the same numbers in every run
    return [(route, seconds * chance.uniform(0.7, 1.3)) for _ in range(count)]


def mixed(*parts: Tasks) -> Tasks:
    return [task for task in chain.from_iterable(zip_longest(*parts)) if task is not None]


def simulated(
    script: Tasks, workers: int, earlier: str | None = None, *, seen: bool = False
) -> tuple[float, float, RouteRates]:
    """(estimated, true) time left when a tenth of the time is over, and the rates at the end.

    With `seen`, what running tasks have read is reported at intervals, as threads do.
    """
    rates = RouteRates(0.0, earlier=earlier)
    free = [0.0] * workers
    spans: list[tuple[float, float, str]] = []
    for route, seconds in script:
        began = heapq.heappop(free)
        heapq.heappush(free, began + seconds)
        spans.append((began + seconds, began, route))
    spans.sort()
    total = spans[-1][0]
    moments = [total * part / 100 for part in range(1, 101)] if seen else [end for end, *_ in spans]

    def done(now: float) -> Counter[str]:
        work: Counter[str] = Counter()
        for end, began, route in spans:
            part = 1.0 if end <= now else max(now - began, 0) / (end - began) if seen else 0.0
            work[route] += part * work_of(TASK, 100)
        return work

    left = done(total)
    left.subtract(done(total / 10))
    estimated = None
    for now in moments:
        if estimated is None and now > total / 10:
            estimated = rates.seconds(left)
        route, others = next((route, workers - 1) for end, _, route in spans if end >= now)
        rates.reach(now, done(now), {} if seen else {route: others * work_of(TASK, 100) / 2})
    assert estimated is not None
    return estimated, total * 0.9, rates


SCRIPTS = {
    "one route": tasks("recode", 400, 1.0),
    "long tasks": tasks("regrid", 200, 300.0),
    "slow, then fast": tasks("recode", 300, 2.0) + tasks("relink", 500, 0.2),
    "fast, then slow": tasks("relink", 400, 0.05) + tasks("recode", 100, 0.5),
    "on a machine ten times as slow": tasks("recode", 200, 20.0) + tasks("reframe", 300, 2.0),
    "three routes in turn": tasks("recode", 120, 3.0)
    + tasks("regrid", 150, 3.3)
    + tasks("reframe", 500, 0.3),
    "routes side by side": mixed(tasks("recode", 200, 5.0), tasks("relink", 200, 0.1)),
    "side by side, as nobody expects": mixed(tasks("relink", 300, 4.0), tasks("recode", 300, 4.0))
    + tasks("relink", 300, 4.0),
    "some of each first, then by route": mixed(tasks("recode", 40, 0.6), tasks("relink", 40, 0.6))
    + tasks("recode", 200, 0.6)
    + tasks("relink", 200, 0.6),
}


@pytest.mark.parametrize("workers", [1, 4, 8])
@pytest.mark.parametrize("name", SCRIPTS)
@pytest.mark.slow(one_in=30)
def test_the_time_left_is_right_after_a_tenth_of_the_job(name: str, workers: int) -> None:
    estimated, true, _ = simulated(SCRIPTS[name], workers)
    assert estimated == pytest.approx(true, rel=0.2)


@pytest.mark.parametrize("workers", [1, 4, 8])
def test_few_long_tasks_are_seen_under_way(workers: int) -> None:
    script = tasks("regrid", 12, 300.0) + tasks("relink", 24, 30.0)
    estimated, true, _ = simulated(script, workers, seen=True)
    assert estimated == pytest.approx(true, rel=0.2)


@pytest.mark.parametrize("workers", [1, 4])
def test_the_rates_of_an_earlier_run_are_expected_again(workers: int) -> None:
    """Those of a store, where copies take as long as recoding: other than typical for both routes."""
    _, _, rates = simulated(mixed(tasks("relink", 40, 3.0), tasks("recode", 40, 3.3)), workers)
    script = tasks("recode", 100, 3.3) + tasks("relink", 300, 3.0)
    estimated, true, _ = simulated(script, workers, earlier=rates.to_text())
    assert estimated == pytest.approx(true, rel=0.2)


def test_a_store_that_becomes_slower_is_noticed() -> None:
    rates, done = RouteRates(0.0), Counter()
    for minute in range(1, 121):
        done["relink"] += work_of((100 if minute <= 60 else 10) * MB, 0)
        rates.reach(minute * 60.0, done)
    assert rates.seconds({"relink": work_of(100 * MB, 0)}) == pytest.approx(600, rel=0.2)


def test_nothing_is_said_before_anything_is_known() -> None:
    rates = RouteRates(0.0)
    assert rates.seconds({"relink": 1.0}) is None
    assert rates.to_text() is None
    for damaged in ("", "[]", "no JSON", '{"relink": 1}', '{"relink": [0, 0]}', "null"):
        assert RouteRates.from_text(damaged).seconds({"relink": 1.0}) is None
    rates.reach(2.0, {"relink": work_of(100, 1)})
    assert rates.seconds({"relink": work_of(100, 1)}) == pytest.approx(2.0)
    assert rates.seconds({}) == 0
