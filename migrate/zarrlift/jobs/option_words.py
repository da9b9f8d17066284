"""The options of a job: those of storage as command line arguments for follow-up commands, and the others.

A job stores the names of its options, and their values only if these are known not to be secret; any other
value is shown as a placeholder such as `<secret>`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from zarrstack.core.json_text import JSONObject

from ..recipe.options import Places
from ..storage.redact import redact
from .ledger.ledger import Job

_NO_SECRETS: Final = frozenset({
    "anon", "endpoint_url", "region", "region_name", "profile", "requester_pays", "use_ssl", "verify",
    "addressing_style", "signature_version", "s3", "s3_additional_kwargs", "client_kwargs", "config_kwargs",
    "default_cache_type", "default_fill_cache", "default_block_size", "cache_regions", "use_listings_cache",
    "skip_instance_cache", "max_concurrency", "max_pool_connections", "connect_timeout", "read_timeout",
    "project", "account_name", "allow_http", "virtual_hosted_style_request", "remote_protocol", "host",
    "port", "timeout", "asynchronous",
})  # fmt: skip
"""Options, mainly of s3fs and botocore, whose values contain locations or settings but no credentials."""
_FACTS: Final = {"source_options": "", "destination_options": "dst:"}
"""Notes of a job, with the place of `--storage-options` for each."""

_REQUESTS: Final = {
    "link": "--link",
    "overwrite": "--overwrite",
    "source_through": "--source-through",
    "dest_through": "--dest-through",
}
"""Notes of a job that say what was requested."""


def remembered(places: Places, *, in_place: bool) -> dict[str, str]:
    """Notes for a job, from the options of both ends; empty without options."""
    by_name = {"source_options": places.storage_options}
    if not in_place:
        by_name["destination_options"] = places.dest_storage_options
    return {name: json.dumps(_without_secrets(options)) for name, options in by_name.items() if options}


def option_words(job: Job) -> tuple[str, ...]:
    """Command line arguments with which a command can open the places of a job."""
    by_place = {place: json.loads(job.fact(name) or "{}") for name, place in _FACTS.items()}
    words: list[str] = []
    for place, options in by_place.items():
        if any(isinstance(value, (dict, list)) for value in options.values()):
            words += ("--storage-options", place + json.dumps(options))
            continue
        for key, value in options.items():
            words += ("--storage-options", f"{place}{key}={_text(value)}")
    return tuple(words)


def requested(job: Job) -> dict[str, str]:
    """What was requested of a job, by option, without secrets."""
    values = {name: job.fact(fact) for fact, name in _REQUESTS.items()}
    options = {name: redact(value) for name, value in values.items() if value not in (None, "auto")}
    if words := option_words(job):
        options["storage"] = " ".join(words)
    return options


def changed_members(recipe: JSONObject) -> JSONObject:
    """The members of the JSON of a recipe that request something."""
    members = {**recipe["base"], **{name: value for name, value in recipe.items() if name != "base"}}
    return {name: value for name, value in members.items() if value not in (None, [], {}, False)}


def _without_secrets(options: Mapping[str, Any]) -> JSONObject:
    return {name: _value(name, value) for name, value in options.items()}


def _value(name: str, value: Any) -> Any:
    if isinstance(value, Mapping):
        return _without_secrets(value)
    if name not in _NO_SECRETS or not isinstance(value, (str, int, float, bool, type(None))):
        return f"<{name}>"
    return redact(value) if isinstance(value, str) else value


def _text(value: Any) -> str:
    """A value for `--storage-options`: JSON, or text that is not JSON."""
    if not isinstance(value, str):
        return json.dumps(value)
    try:
        json.loads(value)
    except ValueError:
        return value
    return json.dumps(value)
