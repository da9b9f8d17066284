"""Checks of layer options, with errors that name layer and option."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..core.errors import UsageError
from ..core.sizes import parse_size
from ..system.clock import Clock
from .description import LayerOptions


def number(
    layer: LayerOptions,
    option: str,
    value: Any,
    *,
    least: float = 0.0,
    most: float = math.inf,
    whole: bool = False,
) -> Any:
    """Return a finite number within inclusive bounds; UsageError otherwise."""
    good = isinstance(value, int if whole else (int, float)) and not isinstance(value, bool)
    if good and math.isfinite(value) and least <= value <= most:
        return value
    bounds = f"of at least {least:g}" if most == math.inf else f"from {least:g} to {most:g}"
    raise invalid_option(layer, option, value, f"{'a whole number' if whole else 'a number'} {bounds}")


def size(layer: LayerOptions, option: str, value: Any, *, least: int = 1) -> int:
    """Return a number of bytes, given as such or as a text such as "64MB"; UsageError otherwise."""
    number = parse_size(value) if isinstance(value, str) else value
    if isinstance(number, int) and not isinstance(number, bool) and number >= least:
        return number
    raise invalid_option(
        layer, option, value, f'a number of bytes of at least {least}, or a text such as "64MB"'
    )


def either(layer: LayerOptions, option: str, value: Any, check: Callable[[Any], bool], expected: str) -> Any:
    """Return a value that is None or passes the check; UsageError otherwise."""
    if value is None or check(value):
        return value
    raise invalid_option(layer, option, value, expected)


def clock_of(layer: LayerOptions, clock: Clock | None) -> Clock:
    """The clock that the option `clock` gives, or the system's; UsageError otherwise."""
    used = Clock() if clock is None else clock
    if isinstance(used, Clock):
        return used
    raise invalid_option(layer, "clock", clock, "a zarrstack.system.clock.Clock")


def invalid_option(layer: LayerOptions, option: str, value: Any, expected: str) -> UsageError:
    """The error for an invalid option."""
    return UsageError(
        f"layer {layer.name!r}: option {option!r} is invalid", found=repr(value), expected=expected
    )
