"""The commands of ``oarlock``: serve, config, check, crd, proto, storage check, storage compact, storage migrate.

Each is a few lines over what ``server`` and ``storage`` do. See also: `loading`, which imports the server;
``server.command``, which tells errors.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from oarlock.cli.describing import describe, warnings_about
from oarlock.cli.loading import load_server, source_folder
from oarlock.cli.reloading import serve_with_reload
from oarlock.codec import yaml
from oarlock.registry.migration import Progress, migrate
from oarlock.schema.crd import export_crd
from oarlock.server.about import own_version
from oarlock.server.command import CommandError, ServeOptions, exit_code_of, serve_with, set_up_logging
from oarlock.server.options.commands import Command, CommandGroup
from oarlock.server.options.effective import as_file
from oarlock.server.options.groups.storage import StoreOptions
from oarlock.server.options.option import OptionGroup, argument, option
from oarlock.server.options.types import BooleanType, IntegerType, PathType, StringType
from oarlock.storage import maintenance

__all__ = ["COMMANDS", "main"]

PROGRESS_S = 1.0
"""How often progress is shown, in seconds."""


@dataclass(frozen=True, kw_only=True, repr=False)
class _ServerArgument(OptionGroup):
    server: str = argument(
        StringType("MODULE:ATTRIBUTE|FILE.py"), "Where the APIServer is: shop.server:server, or shop/server.py."
    )


@dataclass(frozen=True, kw_only=True, repr=False)
class _Serve(_ServerArgument, ServeOptions):
    title = ""

    reload: bool = option(
        False,
        BooleanType(),
        "Start again when a Python file beside the server changes. For development.",
        in_file=False,
    )


def _serve(options: _Serve) -> int | None:
    """Serve an APIServer to Kubernetes clients.

    Prints the kubectl line to try once it is ready. SIGTERM and SIGINT (Ctrl-C) let it leave in order; twice, at once.
    """
    set_up_logging(options.verbosity)
    if options.reload:
        words = [word for word in sys.argv[1:] if word.partition("=")[0] != "--reload"]
        return serve_with_reload(words, source_folder(options.server))
    serve_with(load_server(options.server), options)
    return None


def _config(options: ServeOptions) -> None:
    """Print the effective configuration of a server, as a file for --config.

    Takes the flags of oarlock serve. Passwords are left out. Nothing is started and nothing is opened.
    """
    print(as_file(options), end="")


def _check(options: _ServerArgument) -> None:
    """Show what an APIServer would serve, and what is doubtful about it.

    Nothing is started and nothing is opened. A mistake is told in one line; the exit code is then 1.
    """
    loaded = load_server(options.server)
    for line in describe(loaded):
        print(line)
    for warning in warnings_about(loaded):
        print(f"doubtful: {warning}")


@dataclass(frozen=True, kw_only=True, repr=False)
class _CRD(_ServerArgument):
    resource: str = argument(
        StringType("RESOURCE.GROUP"), "Only this one, for example orders.shop.example.com.", default=""
    )


def _crd(options: _CRD) -> None:
    """Print the CustomResourceDefinitions of what is stored, as YAML for a cluster.

    Hooks, conversions and what only oarlock understands aren't in them.
    """
    stored = [one.definition for one in load_server(options.server).catalog.resources if one.virtual is None]
    found = [one for one in stored if options.resource in ("", str(one.group_resource))]
    if not found:
        names = ", ".join(str(one.group_resource) for one in stored) or "nothing is stored"
        raise CommandError(f"{options.server}: no {options.resource or 'resource'} to print: {names}")
    for definition in found:
        print("---")
        print(yaml.encode(export_crd(definition)).decode(), end="")


@dataclass(frozen=True, kw_only=True, repr=False)
class _Proto(_ServerArgument):
    version: str = argument(
        StringType("GROUP/VERSION/RESOURCE"), "Which, where several have field numbers.", default=""
    )
    lock: Path | None = option(None, PathType(), "Write it to this file, unless that breaks clients of what is in it.")
    check_lock: Path | None = option(None, PathType(), "Only compare with this file, which --lock wrote.", flag="check")


def _proto(options: _Proto) -> None:
    """Print the .proto file of a version whose fields have numbers.

    With --lock or --check, prints one line for each change that breaks clients; the exit code is 1 if there is any.
    """
    from oarlock.cli.proto import command  # noqa: PLC0415 (no other command needs it)

    command.run(options.server, options.version, lock=options.lock, check=options.check_lock)


def _check_store(options: StoreOptions) -> None:
    """Look for damage.

    Prints one line for each finding; the exit code is 1 if there is any.
    """
    findings = asyncio.run(maintenance.check(options.storage))
    for finding in findings:
        print(finding)
    if findings:
        count = "1 finding" if len(findings) == 1 else f"{len(findings)} findings"
        raise CommandError(f"{count} in {options.shown_storage}: stop its servers and restore it from a backup")
    print(f"{options.shown_storage}: sound")


@dataclass(frozen=True, kw_only=True, repr=False)
class _Compact(StoreOptions):
    revision: int | None = option(
        None, IntegerType(minimum=1), "Forget what came before this revision; the current one unless given."
    )


def _compact(options: _Compact) -> None:
    """Forget history before a revision.

    Live objects are kept; watches and pages from before it are answered 410, and their clients start again.
    """
    compacted, current = asyncio.run(maintenance.compact(options.storage, options.revision))
    print(f"{options.shown_storage}: compacted at revision {compacted}, current is {current}")


@dataclass(frozen=True, kw_only=True, repr=False)
class _Migrate(_ServerArgument, StoreOptions):
    """Whose store it is, and where."""


def _migrate(options: _Migrate) -> None:
    """Rewrite what is stored in an old version.

    It is then in the version that the server writes. Servers may go on running, if all of them know that one. What is
    done stays done when this is stopped; run it again for the rest. The exit code is 1 if objects remain that can't be
    read.
    """
    served = [one for one in load_server(options.server).catalog.resources if one.virtual is None]

    async def run() -> list[str]:
        unreadable: list[str] = []
        async with maintenance.opened(options.storage) as backend:
            for one in served:
                result = await migrate(backend, one, _progress_printer(PROGRESS_S))
                print(f"{result.resource}: {result.rewritten} of {result.seen} rewritten as {one.definition.stored_as}")
                unreadable += result.broken
        return unreadable

    unreadable = asyncio.run(run())
    for line in unreadable:
        print(line)
    if unreadable:
        count = "1 object" if len(unreadable) == 1 else f"{len(unreadable)} objects"
        raise CommandError(
            f"{count} in {options.shown_storage} can't be read: remove or repair what is listed, and run this again"
        )


def _progress_printer(every_s: float) -> Callable[[Progress], None]:
    """A function that prints progress to stderr, at most once in this time."""
    shown_at = time.monotonic()

    def show(progress: Progress) -> None:
        nonlocal shown_at
        now = time.monotonic()
        if now - shown_at >= every_s:
            shown_at = now
            again = " again, to be sure" if progress.passes > 1 else ""
            text = f"{progress.seen} of {progress.total} looked at{again}, {progress.rewritten} rewritten"
            print(f"{progress.resource}: {text}", file=sys.stderr, flush=True)

    return show


COMMANDS = CommandGroup(
    "oarlock",
    "Kubernetes-style API servers in Python.",
    (
        Command("serve", _Serve, _serve),
        Command("config", ServeOptions, _config),
        Command("check", _ServerArgument, _check),
        Command("crd", _CRD, _crd),
        Command("proto", _Proto, _proto),
        CommandGroup(
            "storage",
            "Look after a store, also while a server runs on it.",
            (
                Command("check", StoreOptions, _check_store),
                Command("compact", _Compact, _compact),
                Command("migrate", _Migrate, _migrate),
            ),
        ),
    ),
    version=own_version(),
)
"""Every command there is."""


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line; ends the process."""
    sys.exit(exit_code_of(COMMANDS, argv))
