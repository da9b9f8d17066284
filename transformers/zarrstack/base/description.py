"""The description of a layer without its store: a name and options, as Python, JSON and text.

The keyword arguments of a layer's constructor are recorded, so that layers can be shown, compared, pickled
and written as JSON without further code.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from typing import Any, ClassVar, Final, Self

from ..core.errors import UsageError
from ..core.json_text import JSON, Extension, JSONObject

PREFIX: Final = "zarrstack."
"""Before the names of zarrstack's layers in metadata; arrays of earlier versions have them without it."""
_PLAIN: Final = (str, int, float, type(None))
"""Types of values that are compared with defaults."""


class LayerOptions:
    """Base class of objects made from a store and keyword options, which it records."""

    name: ClassVar[str]
    """The name on the command line, in messages and, for layers of other packages, in metadata."""
    secrets: ClassVar[frozenset[str]] = frozenset()
    """Options omitted from text and JSON, such as a key."""
    _options: dict[str, Any]

    def __new__(cls, store: Any = None, *more: Any, **options: Any) -> Self:
        """Create an instance that records its options; `__init__` checks them."""
        del store  # used by `__init__`
        if more:
            raise TypeError(f"{cls.__name__}() takes options by keyword only")
        if not hasattr(cls, "name"):
            raise TypeError(f"the class {cls.__name__} has no name: define `name` in it")
        layer = super().__new__(cls)
        layer._options = {}
        layer._record_options(**options)
        return layer

    def _record_options(self, **options: Any) -> None:
        """Record options, also in place of what was passed, without those that have their default value."""
        parameters = inspect.signature(type(self).__init__).parameters
        for name, value in options.items():
            default = parameters[name].default if name in parameters else inspect.Parameter.empty
            if isinstance(value, _PLAIN) and value == default:
                self._options.pop(name, None)
            else:
                self._options[name] = value

    @property
    def options(self) -> Mapping[str, Any]:
        """The keyword arguments that make an equal layer; override to normalise them."""
        return self._options

    @property
    def configuration(self) -> JSONObject:
        """The options as JSON; override if an option's value is not JSON."""
        return {name: value for name, value in self.options.items() if name not in self.secrets}

    def to_json(self) -> JSONObject:
        """The layer as an entry of `storage_transformers`: `{"name": ..., "configuration": {...}}`.

        Source: Zarr v3.0 core specification, "Extension definition"
        (https://zarr-specs.readthedocs.io/en/latest/v3/core/index.html). UsageError for an option that has no
        JSON form, such as a callback.
        """
        for option, value in self.configuration.items():
            try:
                json.dumps(value)
            except (TypeError, ValueError):
                raise UsageError(
                    f"layer {self.name!r}: option {option!r} has no JSON form",
                    found=type(value).__name__,
                    advice="Such a layer works in Python, but cannot be named in metadata.",
                ) from None
        return {"name": self.name_in_metadata(), "configuration": dict(self.configuration)}

    @classmethod
    def name_in_metadata(cls) -> str:
        """The name in `storage_transformers`: of zarrstack's layers, behind the name of the package.

        Names of extensions that no specification defines should say whose they are
        (https://github.com/zarr-developers/zarr-extensions, "Naming").
        """
        return PREFIX + cls.name if cls.__module__.startswith("zarrstack.") else cls.name

    @classmethod
    def from_json(cls, data: JSONObject, store: Any = None) -> Self:
        """Create a layer over `store` from `to_json`'s result; UsageError for an invalid configuration."""
        _, configuration = split_entry(data)
        optional = cls.option_names()
        if unknown := sorted(set(configuration) - set(optional)):
            raise UsageError(
                f"layer {cls.name!r} has no option {unknown[0]!r}",
                expected=", ".join(optional) or "no options",
            )
        missing = sorted(name for name, may in optional.items() if not may and name not in configuration)
        if missing:
            raise UsageError(f"layer {cls.name!r} needs the option {missing[0]!r}")
        make: Any = cls  # the options differ by subclass
        layer: Self = make(store, **configuration)
        return layer

    @classmethod
    def option_names(cls) -> dict[str, bool]:
        """The names of the constructor's options, and whether each is optional."""
        parameters = inspect.signature(cls.__init__).parameters.values()
        return {
            each.name: each.default is not each.empty for each in parameters if each.kind is each.KEYWORD_ONLY
        }

    def describe(self) -> str:
        """The layer without its store, as in `Cache(budget=1000)`."""
        texts = (
            f"{name}={'...' if name in self.secrets else repr(value)}" for name, value in self.options.items()
        )
        return f"{type(self).__name__}({', '.join(texts)})"


def split_entry(entry: JSON) -> tuple[str, JSONObject]:
    """Name and configuration of an entry of `storage_transformers`; UsageError if it is invalid."""
    return Extension.from_json(entry, "storage transformer", UsageError)[:2]
