"""Limits of configurations and of fill values that every copy respects, for the readers that it is made for.

A reader that supports a codec may refuse some of its configurations. Who supports which codec is in
`reader_table`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from zarrstack.core.json_text import JSON

from ..codec_facts import Member
from ..codec_spec import CodecSpec
from ..codec_table import TABLE, is_registered


def misread_nan(fill: JSON) -> bool:
    """Whether zarr-python misreads a NaN in a v3 fill value.

    It converts the stated bits to a Python float first: every float16 NaN except the default one changes
    before Python 3.14, and so do signalling NaNs of float32 and complex64 (3.1.6 and 3.4.2, observed).
    """
    parts = fill if isinstance(fill, list) else [fill]
    bits = [part.removeprefix("0x") for part in parts if isinstance(part, str) and part.startswith("0x")]
    return any(
        int(text, 16) & 0x3FF != 0x200 if len(text) == 4 else len(text) == 8 and not int(text, 16) & 0x400000
        for text in bits
    )


def limits_problem(spec: CodecSpec) -> tuple[str, str] | None:
    """The first problem that some reader has with a configuration, and the expected form; None if none.

    A blosc without `typesize` or `shuffle` is accepted: both are derived from the data type.
    """
    members = _registered_members(spec)
    if members is None:
        return None
    configuration = spec.configuration
    if unknown := sorted(set(configuration) - set(members)):
        return f"unknown member {unknown[0]!r}", ", ".join(sorted(members)) or "no configuration"
    for name, member in members.items():
        if name not in configuration and not member.needed:
            continue
        value = configuration.get(name)
        if (expected := member.limits(value)) is not None:
            return f"{name} is {value!r}", expected
    return None


def within_limits(spec: CodecSpec) -> CodecSpec:
    """Limit what matters to the encoder only, such as levels, to values that all readers accept.

    A decoder finds all it needs in the stored bytes. Bytes written under `spec` therefore decode under the
    result. Members that v3 readers require and the document lacks, such as the level of gzip, have defaults.
    """
    members = _registered_members(spec) or {}
    configuration = {name: member.default for name, member in members.items() if member.needed} | {
        name: members[name].limited(value) if name in members else value
        for name, value in spec.configuration.items()
    }
    return spec if configuration == dict(spec.configuration) else replace(spec, configuration=configuration)


def _registered_members(spec: CodecSpec) -> Mapping[str, Member] | None:
    """The members of a registered codec; None for others, whose readers are few."""
    return TABLE[spec.name].members if is_registered(spec.name) else None
