"""The command that serves an archive as Zarr v3."""

from __future__ import annotations

from typing import Annotated

import typer

from . import options as o
from .session import DONE, Answer, Session, say, write

_HOST = "127.0.0.1"
_PORT = 8383


def serve(
    source: o.Source,
    port: Annotated[int, typer.Option("--port", help="0 takes any that is free.", min=0, max=65535)] = _PORT,
    host: Annotated[
        str, typer.Option("--host", help="The address to listen on; others reach 0.0.0.0 too.")
    ] = _HOST,
    from_: o.From = None,
    follow_links: o.FollowLinks = False,
    axes: o.AxesOption = None,
    allow_fallback: o.AllowFallback = False,
    storage_options: o.StorageOptions = None,
    recipe_file: o.RecipeFile = None,
) -> int:
    """Serve an archive over HTTP as Zarr v3, as it lies, read-only, until Ctrl-C."""
    session = Session(command="serve")

    def work() -> Answer:
        import sys

        from ..places import open_storage
        from ..read_options import ReadOptions
        from ..serving import require_server, run
        from ..view import view_of

        require_server()
        reading = ReadOptions.asked(
            follow_links=follow_links, axes=o.value(axes), allow_fallback=allow_fallback
        )
        storage = open_storage(source, storage_options=o.storage_options(storage_options))
        view = view_of(
            storage,
            format=o.value(from_),
            reading=reading,
            recipe=None if recipe_file is None else o.load_recipe(recipe_file),
        )
        for problem in view.plan.all_problems():
            if problem.severity == "refusal":
                say(f"zarrlift: not served: {problem}")

        def ready(address: str) -> None:
            write(f"{storage.url} as Zarr v3: {address} (Ctrl-C stops)\n", sys.stdout)

        run(view, storage.url, host=host, port=port, ready=ready)
        session.interrupted = False  # Ctrl-C is how a server is meant to end
        return Answer(code=DONE, text=lambda _: (), data=dict)

    return session.run(work)
