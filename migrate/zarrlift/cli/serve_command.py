"""The command that serves an archive as Zarr v3, or a Zarr v3 hierarchy in an older format."""

from __future__ import annotations

from typing import Annotated

import typer

from . import options as o
from .choices import Separator, Shown
from .session import DONE, Answer, Session, say, write

_HOST = "127.0.0.1"
_PORT = 8383


def serve(
    source: o.Source,
    port: Annotated[int, typer.Option("--port", help="0 takes any that is free.", min=0, max=65535)] = _PORT,
    host: Annotated[
        str, typer.Option("--host", help="The address to listen on; others reach 0.0.0.0 too.")
    ] = _HOST,
    allow_origin: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-origin",
            help="Whose pages may read in a browser: https://HOST (repeatable), or * for all.",
        ),
    ] = None,
    as_: Annotated[
        Shown, typer.Option("--as", help="What is served: zarr2 and n5 for readers that do not know Zarr v3.")
    ] = Shown.ZARR3,
    separator: Annotated[
        Separator | None, typer.Option("--separator", help="With --as zarr2: within chunk keys; else a dot.")
    ] = None,
    from_: o.From = None,
    follow_links: o.FollowLinks = False,
    axes: o.AxesOption = None,
    allow_fallback: o.AllowFallback = False,
    max_document_size: o.MaxDocumentSize = None,
    storage_options: o.StorageOptions = None,
    recipe_file: o.ViewRecipe = None,
) -> int:
    """Serve an archive over HTTP as Zarr v3, as it lies, read-only, until Ctrl-C."""
    session = Session(command="serve")

    def work() -> Answer:
        import sys

        from zarrstack.core.errors import UsageError

        from ..archive.read_options import ReadOptions
        from ..storage.open_storage import open_storage
        from ..views.http_server import Served, require_server, run

        require_server()
        if separator is not None and as_ is not Shown.ZARR2:
            raise UsageError("--separator is that of Zarr v2's chunk keys", expected="--as zarr2 beside it")
        reading = ReadOptions.asked(
            follow_links=follow_links,
            axes=o.value(axes),
            allow_fallback=allow_fallback,
            max_document_size=o.size(max_document_size, "--max-document-size"),
        )
        storage = open_storage(source, storage_options=o.storage_options(storage_options))
        origins = frozenset(allow_origin or ())
        recipe = None if recipe_file is None else o.load_recipe(recipe_file)
        if as_ is Shown.ZARR3:
            from ..views.legacy import view_of

            view = view_of(storage, format=o.value(from_), reading=reading, recipe=recipe)
            served, problems = Served(view=view, url=storage.url, origins=origins), view.plan.all_problems()
        else:
            from ..views.reverse import presented

            reverse = presented(
                storage,
                "zarr2" if as_ is Shown.ZARR2 else "n5",
                separator="/" if separator is Separator.SLASH else ".",
                format=o.value(from_),
                reading=reading,
                recipe=recipe,
            )
            served = Served(
                view=reverse,
                url=storage.url,
                shown_as=reverse.shown_as,
                documents=reverse.document_names,
                origins=origins,
            )
            problems = reverse.problems
        for problem in problems:
            if problem.severity == "refusal":
                say(f"zarrlift: not served: {problem}")

        def ready(address: str) -> None:
            write(f"{storage.url} as {served.shown_as}: {address} (Ctrl-C stops)\n", sys.stdout)

        run(served, host=host, port=port, ready=ready)
        session.interrupted = False  # Ctrl-C is the normal end of a server
        return Answer(code=DONE, text=lambda _: (), data=dict)

    return session.run(work)
