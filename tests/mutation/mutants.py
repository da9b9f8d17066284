"""Draw mutants of the modules in `targets.py`, with cosmic-ray (`requirements.txt`).

    python mutants.py TREE OUTPUT

Positions are drawn first, by a fixed seed, and one mutation of each: an operator that can be replaced by ten
others is not ten times as likely. Annotations, which are never evaluated, and options
of dataclasses are left out.
"""

from __future__ import annotations

import ast
import hashlib
import json
import random
import sys
import warnings
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import parso
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.operators.operator import Operator
from cosmic_ray.plugins import get_operator, operator_names
from targets import MODULES, PER_MODULE, SEED

Place = tuple[int, int]
_NEED_ARGUMENTS = ("VariableInserter", "VariableReplacer")


class DeleteCall(Operator):
    """Leaves out a statement that only calls something: a record, a deletion, a check."""

    @staticmethod
    def _is_call(node: Any) -> bool:
        return (
            node.type in ("atom_expr", "power")
            and node.parent.type == "simple_stmt"
            and node.children[-1].type == "trailer"
            and node.children[-1].children[0].value == "("
        )

    def mutation_positions(self, node: Any) -> Iterator[tuple[Place, Place]]:
        if self._is_call(node):
            yield node.start_pos, node.end_pos

    def mutate(self, node: Any, index: int) -> Any:
        return parso.parse(f"{node.get_first_leaf().prefix}None").children[0]

    @classmethod
    def examples(cls) -> tuple[()]:
        return ()


def operators() -> dict[str, Any]:
    """Operators by name, without those that need to be told what to insert."""
    named = {name: get_operator(name)() for name in operator_names() if not name.endswith(_NEED_ARGUMENTS)}
    return {**named, "ours/DeleteCall": DeleteCall()}


def annotations(tree: ast.Module) -> list[tuple[Place, Place]]:
    """Where annotations are, and what only type checkers read."""
    nodes: list[ast.AST] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            every = [
                *node.args.args,
                *node.args.kwonlyargs,
                *node.args.posonlyargs,
                node.args.vararg,
                node.args.kwarg,
            ]
            nodes += [each.annotation for each in every if each and each.annotation]
            nodes += [node.returns] if node.returns else []
        elif isinstance(node, ast.AnnAssign):
            nodes.append(node.annotation)
        elif isinstance(node, ast.ClassDef):
            nodes += [each for each in node.decorator_list if isinstance(each, ast.Call)]  # frozen, slots
        elif isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            nodes.append(node)
    return [((node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)) for node in nodes]


def mutations(source: str) -> dict[Place, list[tuple[str, int]]]:
    """By position, the operators that apply there, each with the number of its occurrence."""
    left_out = annotations(ast.parse(source))
    nodes = list(ast_nodes(get_ast(source)))
    found: dict[Place, list[tuple[str, int]]] = defaultdict(list)
    for name, operator in sorted(operators().items()):
        occurrence = 0
        for node in nodes:
            for start, _ in operator.mutation_positions(node):
                if not any(first <= start < last for first, last in left_out):
                    found[start].append((name, occurrence))
                occurrence += 1
    return found


def drawn(tree: Path, module: str) -> Iterator[dict[str, Any]]:
    """Mutants of a module, in the order in which they are drawn."""
    rng = random.Random(f"{SEED} {module}")
    places = []
    for file in MODULES[module]:
        source = (tree / file).read_text()
        places += [(file, place, choice) for place, choice in sorted(mutations(source).items())]
    rng.shuffle(places)
    seen = set()
    for turn in range(9):  # once each position, then the others
        for file, place, choice in places:
            order = random.Random(f"{SEED} {file} {place}").sample(choice, len(choice))
            if turn >= len(order):
                continue
            name, occurrence = order[turn]
            source = (tree / file).read_text()
            mutated = _mutated(source, name, occurrence)
            if mutated is None or mutated in seen:
                continue
            seen.add(mutated)
            yield {
                "module": module,
                "file": file,
                "line": place[0],
                "operator": name.partition("/")[2],
                "source": mutated,
                "id": hashlib.blake2b(f"{file}\0{mutated}".encode(), digest_size=4).hexdigest(),
            }


def _mutated(source: str, name: str, occurrence: int) -> str | None:
    """The mutant; None if it is not valid, or if Python warns of it."""
    try:
        mutated = mutate_code(source, operators()[name], occurrence)
    except AttributeError:  # cosmic-ray 8.7 replaces no exceptions that are written as module.Name
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            compile(mutated or "", "mutant", "exec")
        except (SyntaxError, SyntaxWarning):
            return None
    return mutated


def main(tree: Path, output: Path) -> None:
    """Write the mutants of all modules."""
    made = []
    for module in MODULES:
        each = [mutant for mutant, _ in zip(drawn(tree, module), range(PER_MODULE), strict=False)]
        print(f"{module}: {len(each)}")
        made += each
    output.write_text(json.dumps(made, indent=0))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
