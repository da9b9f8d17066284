"""Problems of symbolic links in a local archive."""

from __future__ import annotations

import os

from zarrstack.core.errors import Problem

from ...core.problems import refusal, warning


def unfollowed_link(path: str | None, key: str | None, target: str) -> Problem:
    """The problem of a link that is not followed: broken, or to a target outside the archive."""
    if os.path.exists(target):
        return link_outside(path, key, target)
    return broken_link(path, target).at(key=key)


def broken_link(path: str | None, target: str) -> Problem:
    """The problem of a link without a target."""
    return refusal(
        "link",
        "a link leads nowhere",
        node=path,
        found=target,
        advice="Fetch its target (with git-annex or DataLad: `git annex get`), or exclude the node.",
    )


def link_to_parent(path: str | None, target: str) -> Problem:
    """The problem of a link to a directory above it."""
    message = "a link points to a directory above it"
    return refusal("link", message, node=path, found=target)


def link_outside(path: str | None, key: str | None, target: str | None) -> Problem:
    """The problem of a link to a target outside the archive."""
    return refusal(
        "link",
        "a link points outside the archive",
        node=path,
        key=key,
        found=target,
        advice="Use --follow-links to follow it, or exclude the node.",
    )


def not_searched(path: str, target: str) -> Problem:
    """The warning for a link to a target outside the place that is searched for archives."""
    return warning(
        "link",
        "a link points outside the searched place and is not followed",
        node=path,
        found=target,
        advice="Use --follow-links to follow it.",
    )


def is_above(target: str, directory: str) -> bool:
    """Whether the target of a link is a directory, or one of those above it."""
    return f"{directory}{os.sep}".startswith(target.rstrip(os.sep) + os.sep)
