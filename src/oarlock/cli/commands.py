"""What can be typed after ``oarlock``: serve, check, crd, proto, storage check, storage compact, storage migrate,
--version.

Each command is a few lines over what ``server`` and ``storage`` do. Next: `loading`, ``server.command``.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from oarlock.cli.describing import described, doubts
from oarlock.cli.loading import load_server, source_folder
from oarlock.cli.reloading import serve_again_and_again
from oarlock.codec import yaml
from oarlock.registry.migration import Progress, migrate
from oarlock.schema.crd import export_crd
from oarlock.server.about import own_version
from oarlock.server.command import CommandError, new_app, run_app, serve_with, set_up_logging, with_serve_options
from oarlock.server.options import ServeOptions, config_of
from oarlock.storage import maintenance

__all__ = ["app", "main"]

HELP = "Kubernetes-style API servers in Python."
ServerPlace = Annotated[
    str,
    typer.Argument(
        metavar="MODULE:ATTRIBUTE|FILE.py", help="Where the APIServer is: shop.server:server, or shop/server.py."
    ),
]
EVERY_S = 1.0
"""How often progress is shown."""

StorageURL = Annotated[str, typer.Option(metavar="URL", help="sqlite:///relative.db or sqlite:////absolute.db.")]


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line; ends the process."""
    sys.exit(run_app(app(), argv))


def app() -> typer.Typer:
    """Every command there is."""
    whole = new_app(HELP)
    whole.callback(invoke_without_command=True)(_version)
    whole.command("serve")(with_serve_options(_serve))
    whole.command("check")(_check_server)
    whole.command("crd")(_crd)
    whole.command("proto")(_proto)
    storage = new_app("Look after a store, also while a server runs on it.")
    storage.command("check")(_check)
    storage.command("compact")(_compact)
    storage.command("migrate")(_migrate)
    whole.add_typer(storage, name="storage")
    return whole


def _version(
    context: typer.Context, version: Annotated[bool, typer.Option("--version", help="Show the version.")] = False
) -> None:
    if version:
        print(f"oarlock {own_version()}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help())
        raise typer.Exit


def _serve(
    server: ServerPlace,
    options: ServeOptions,
    reload: Annotated[
        bool,
        typer.Option("--reload", help="Start again when a Python file beside the server changes. For development."),
    ] = False,
) -> None:
    """Serve an APIServer to Kubernetes clients.

    Prints the kubectl line to try once it is ready. SIGTERM and SIGINT (Ctrl-C) let it leave in order; twice, at once.
    """
    set_up_logging(options.verbosity)
    config = config_of(options)
    if reload:
        arguments = [argument for argument in sys.argv[1:] if argument != "--reload"]
        raise typer.Exit(serve_again_and_again(arguments, source_folder(server)))
    serve_with(load_server(server), config)


def _check_server(server: ServerPlace) -> None:
    """Show what an APIServer would serve, and what is doubtful about it.

    Nothing is started and nothing is opened. A mistake is told in one line; the exit code is then 1.
    """
    loaded = load_server(server)
    for line in described(loaded):
        print(line)
    for doubt in doubts(loaded):
        print(f"doubtful: {doubt}")


def _crd(
    server: ServerPlace,
    resource: Annotated[
        str, typer.Argument(metavar="[RESOURCE.GROUP]", help="Only this one, for example orders.shop.example.com.")
    ] = "",
) -> None:
    """Print the CustomResourceDefinitions of what is stored, as YAML for a cluster.

    Hooks, conversions and what only oarlock understands aren't in them.
    """
    stored = [one.definition for one in load_server(server).catalog.entries if one.virtual is None]
    found = [one for one in stored if resource in ("", str(one.group_resource))]
    if not found:
        names = ", ".join(str(one.group_resource) for one in stored) or "nothing is stored"
        raise CommandError(f"{server}: no {resource or 'resource'} to print: {names}")
    for definition in found:
        print("---")
        print(yaml.encode(export_crd(definition)).decode(), end="")


def _proto(
    server: ServerPlace,
    version: Annotated[
        str, typer.Argument(metavar="[GROUP/VERSION/RESOURCE]", help="Which, where several have field numbers.")
    ] = "",
    lock: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write it to this file, unless that breaks clients of what is in it."),
    ] = None,
    check: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Only compare with this file, which --lock wrote.")
    ] = None,
) -> None:
    """Print the .proto file of a version whose fields have numbers.

    With --lock or --check, prints one line for each change that breaks clients; the exit code is 1 if there is any.
    """
    from oarlock.cli.proto import command  # noqa: PLC0415 (no other command needs it)

    command.run(server, version, lock=lock, check=check)


def _check(storage: StorageURL = "sqlite:///oarlock.db") -> None:
    """Look for damage.

    Prints one line for each finding; the exit code is 1 if there is any.
    """
    findings = asyncio.run(maintenance.check(storage))
    for finding in findings:
        print(finding)
    if findings:
        count = "1 finding" if len(findings) == 1 else f"{len(findings)} findings"
        raise CommandError(f"{count} in {storage}: stop its servers and restore it from a backup")
    print(f"{storage}: sound")


def _compact(
    storage: StorageURL = "sqlite:///oarlock.db",
    revision: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Forget what came before this revision; the current one unless given."),
    ] = None,
) -> None:
    """Forget history before a revision.

    Live objects are kept; watches and pages from before it are answered 410, and their clients start again.
    """
    compacted, current = asyncio.run(maintenance.compact(storage, revision))
    print(f"{storage}: compacted at revision {compacted}, current is {current}")


def _migrate(server: ServerPlace, storage: StorageURL = "sqlite:///oarlock.db") -> None:
    """Rewrite what is stored in an old version.

    It is then in the version that the server writes. Servers may go on running, if all of them know that one. What is
    done stays done when this is stopped; run it again for the rest. The exit code is 1 if objects remain that can't be
    read.
    """
    served = [one for one in load_server(server).catalog.entries if one.virtual is None]

    async def run() -> list[str]:
        left: list[str] = []
        async with maintenance.opened(storage) as backend:
            for one in served:
                done = await migrate(backend, one, _telling(EVERY_S))
                print(f"{done.resource}: {done.rewritten} of {done.seen} rewritten as {one.definition.stored_as}")
                left += done.broken
        return left

    broken = asyncio.run(run())
    for line in broken:
        print(line)
    if broken:
        count = "1 object" if len(broken) == 1 else f"{len(broken)} objects"
        raise CommandError(f"{count} in {storage} can't be read: remove or repair what is listed, and run this again")


def _telling(every_s: float) -> Callable[[Progress], None]:
    """Shows progress on stderr, every so often."""
    last = time.monotonic()

    def tell(progress: Progress) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= every_s:
            last = now
            again = " again, to be sure" if progress.passes > 1 else ""
            text = f"{progress.seen} of {progress.total} looked at{again}, {progress.rewritten} rewritten"
            print(f"{progress.resource}: {text}", file=sys.stderr, flush=True)

    return tell
