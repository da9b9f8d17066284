"""Which tests execute which statement of the modules that are mutated.

    python probes.py TREE OUTPUT [ARGUMENTS OF PYTEST]

TREE is a copy of the repository, whose modules get a probe before each statement. Unlike coverage.py's
tracers, a probe works in every process that a test starts; it writes down each statement once a test.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

from targets import MODULES

PROBE = """
import os
_environment = os.environ._data
_seen = {}
def hit(place):
    test = _environment.get(b"PYTEST_CURRENT_TEST")
    if test is None:
        return
    places = _seen.get(test)
    if places is None:
        _seen.clear()
        places = _seen[test] = set()
    if place not in places:
        places.add(place)
        file = os.open(_environment[b"MUTATION_PROBES"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        os.write(file, b"%s\\t%s\\n" % (place.encode(), test))
        os.close(file)
"""


def probed(source: str, name: str) -> str:
    """The source with a probe before each statement of a function."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            _insert(node, name)
    text = ast.unparse(ast.fix_missing_locations(tree))
    future = "from __future__ import annotations\n"
    assert future in text, name
    return text.replace(future, f"{future}import mutation_probe as _mutation_probe\n", 1)


def _insert(function: ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> None:
    for parent in ast.walk(function):
        for field in ("body", "orelse", "finalbody"):
            block = getattr(parent, field, None)
            if not isinstance(block, list) or isinstance(parent, ast.ClassDef):
                continue
            if any(getattr(each, "is_probe", False) for each in block):
                continue  # by the function around this one
            lines = []
            for each in block:
                if not (isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant)):
                    probe = ast.parse(f"_mutation_probe.hit({f'{name}:{each.lineno}'!r})").body[0]
                    probe.is_probe = True
                    if not isinstance(each, ast.Nonlocal | ast.Global):
                        lines.append(probe)
                lines.append(each)
            block[:] = lines


def main(tree: Path, output: Path, arguments: list[str]) -> None:
    """Put in the probes, run the tests, collect what was hit."""
    for files in MODULES.values():
        for name in files:
            path = tree / name
            source = path.read_text()
            if "_mutation_probe" not in source:
                path.write_text(probed(source, name))
    (tree / "transformers/mutation_probe.py").write_text(PROBE)
    hits, times = Path(f"{output}.hits"), Path(f"{output}.times")
    hits.unlink(missing_ok=True)
    times.unlink(missing_ok=True)
    hits.touch()
    hits.chmod(0o666)  # some tests run as another user
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(
            map(str, (tree / "migrate", tree / "transformers", tree, Path(__file__).parent))
        ),
        "MUTATION_PROBES": str(hits),
        "MUTATION_TIMES": str(times),
    }
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "durations", "-p", "no:cacheprovider", *arguments],
        cwd=tree,
        env=environment,
        check=False,
    )
    output.write_text(json.dumps(collect(hits, times)))


def collect(hits: Path, times: Path) -> dict[str, object]:
    """Seconds of each test that passed, and by statement the tests that executed it."""
    seconds: dict[str, float] = defaultdict(float)
    failed = set()
    for line in times.read_text().splitlines():
        outcome, duration, test = line.split("\t", 2)
        seconds[test] += float(duration)
        if outcome != "passed":
            failed.add(test)
    names = sorted(test for test in seconds if test not in failed)
    number = {test: index for index, test in enumerate(names)}
    places: dict[str, set[int]] = defaultdict(set)
    for line in hits.read_text().splitlines():
        place, test = line.split("\t", 1)
        test = test.rpartition(" (")[0]
        if test in number:
            places[place].add(number[test])
    return {
        "tests": [[test, round(seconds[test], 4)] for test in names],
        "failed": sorted(failed),
        "places": {place: sorted(tests) for place, tests in sorted(places.items())},
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve(), sys.argv[3:])
