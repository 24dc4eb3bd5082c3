"""What can be typed after ``oarlock``: serve, storage check, storage compact, --version.

Each command is a few lines over what ``server`` and ``storage`` do. Next: `loading`, ``server.command``.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from importlib import metadata
from typing import Annotated

import typer

from oarlock.cli.loading import load_server
from oarlock.server.clock import SystemClock
from oarlock.server.command import Mistake, run_app, serve_with, set_up_logging, with_serve_options
from oarlock.server.options import ServeOptions, config_of
from oarlock.storage.backend import Backend, Compacted, FutureRevision
from oarlock.storage.url import open_backend

__all__ = ["main"]

HELP = "Kubernetes-style API servers in Python."
StorageURL = Annotated[str, typer.Option(metavar="URL", help="sqlite:///relative.db or sqlite:////absolute.db.")]


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line; ends the process."""
    sys.exit(run_app(_app(), argv))


def _app() -> typer.Typer:
    app = typer.Typer(add_completion=False, rich_markup_mode=None, help=HELP, no_args_is_help=False)
    app.callback(invoke_without_command=True)(_version)
    app.command("serve")(with_serve_options(_serve))
    storage = typer.Typer(rich_markup_mode=None, help="Look after a store, also while a server runs on it.")
    storage.command("check")(_check)
    storage.command("compact")(_compact)
    app.add_typer(storage, name="storage")
    return app


def _version(
    context: typer.Context, version: Annotated[bool, typer.Option("--version", help="Show the version.")] = False
) -> None:
    if version:
        print(f"oarlock {metadata.version('oarlock')}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help())
        raise typer.Exit


def _serve(
    server: Annotated[str, typer.Argument(metavar="MODULE:ATTRIBUTE|FILE.py", help="Where the APIServer is.")],
    options: ServeOptions,
) -> None:
    """Serve an APIServer until told to leave (SIGTERM, SIGINT; twice: at once)."""
    set_up_logging(options.verbosity)
    config = config_of(options)
    serve_with(load_server(server), config)


def _check(storage: StorageURL = "sqlite:///oarlock.db") -> None:
    """Look for damage: one line for each finding, exit code 1 if there is any."""

    async def check(backend: Backend) -> int:
        findings = await backend.check()
        for finding in findings:
            print(finding)
        return len(findings)

    found = asyncio.run(_with_store(storage, check))
    if found:
        raise Mistake(f"{found} findings in {storage}: stop its servers and restore it from a backup")
    print(f"{storage}: sound")


def _compact(
    storage: StorageURL = "sqlite:///oarlock.db",
    revision: Annotated[int, typer.Option(metavar="N", min=0, help="Forget what came before; 0 is now.")] = 0,
) -> None:
    """Forget history before a revision. Live objects are kept; watches and pages from before it get 410."""

    async def compact(backend: Backend) -> int:
        wanted = revision or await backend.current_rev()
        try:
            await backend.compact(wanted)
        except Compacted as error:
            raise Mistake(f"--revision {wanted}: history before {error.compact_rev} is gone already") from None
        except FutureRevision as error:
            raise Mistake(f"--revision {wanted}: the store is only at revision {error.current_rev}") from None
        return wanted

    print(f"{storage}: compacted at revision {asyncio.run(_with_store(storage, compact))}")


async def _with_store(url: str, work: Callable[[Backend], Awaitable[int]]) -> int:
    backend = open_backend(url, SystemClock(), create=False)
    try:
        await backend.start()
        return await work(backend)
    finally:
        await backend.close()
