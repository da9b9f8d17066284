"""`zarrlift batch`: many archives, each with a job of its own. Loaded for these commands only."""

from __future__ import annotations

from typing import Any

from ..recipe.options import Request, Running, Watching
from .given import Given
from .migrate_commands import moving
from .session import Answer


def run(given: Given) -> Answer:
    """Migrate every archive of lists."""

    def work(progress: Any) -> Any:
        import zarrlift

        how: dict[str, Any] = {name: vars(given)[name] for name in ("to", "list_file", "only", "update")}
        how |= {"run": not given.dry_run, "recipe": given.recipe(), "progress": progress}
        how |= {**given.reading(), **given.of(Request, Running, Watching), **given.storage()}
        return zarrlift.batch(*given.lists, **how).outcome

    return moving(work, None, given)
