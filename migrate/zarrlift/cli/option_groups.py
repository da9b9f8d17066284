"""Groups of options: a command takes a group as one parameter, typer sees each option of it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, update_wrapper
from inspect import Parameter, Signature, get_annotations, signature
from typing import Any

import typer


def option(*names: str, help: str, metavar: str | None = None, **more: Any) -> Any:
    """The description of an option, for its annotation."""
    return typer.Option(*names, help=help, metavar=metavar, **more)


class Group:
    """Options that several commands share: annotated attributes with their defaults.

    A command that names a subclass as the type of a parameter receives an instance with the given values.
    """

    def __init__(self, **given: Any) -> None:
        vars(self).update(given)

    def given(self) -> set[str]:
        """Names of the options that do not have their defaults."""
        return {item.name for item in self.parameters() if vars(self)[item.name] != item.default}

    @classmethod
    @cache
    def parameters(cls) -> tuple[Parameter, ...]:
        """The options as typer reads them; those of the class itself first."""
        found: dict[str, Parameter] = {}
        for level in cls.__mro__:
            for name, annotation in get_annotations(level, eval_str=True).items():
                found.setdefault(name, parameter(name, annotation, getattr(cls, name)))
        return tuple(found.values())


def parameter(name: str, annotation: Any, default: Any) -> Parameter:
    """An option of a command."""
    return Parameter(name, Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


def expanded(command: Callable[..., int]) -> Callable[..., int]:
    """The command with each group replaced by its options."""
    shown: list[Parameter] = []
    groups: dict[str, type[Group]] = {}
    for name, taken in signature(command, eval_str=True).parameters.items():
        if isinstance(taken.annotation, type) and issubclass(taken.annotation, Group):
            groups[name] = taken.annotation
            shown += taken.annotation.parameters()
        else:
            shown.append(taken.replace(kind=Parameter.KEYWORD_ONLY))

    def run(**given: Any) -> int:
        for name, group in groups.items():
            given[name] = group(**{item.name: given.pop(item.name) for item in group.parameters()})
        return command(**given)

    update_wrapper(run, command)
    del run.__wrapped__  # type: ignore[attr-defined]
    run.__annotations__ = {item.name: item.annotation for item in shown}
    run.__signature__ = Signature(shown)  # type: ignore[attr-defined]
    return run
