"""A server as a command: reads options, sets up the log, tells errors in one line each, ends with an exit code.

``oarlock serve`` and `APIServer.main` use this. See also: `commands`, which parses; `lifecycle`, which serves.
"""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import logging
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from oarlock.client.clock import SystemClock
from oarlock.endpoints.catalog import CatalogError
from oarlock.meta.dataclass import dataclass
from oarlock.policy.authn.authenticator import CertificateBundleError, KeyFileError
from oarlock.policy.authn.tokens.token_file import TokenFileError
from oarlock.registry.stored.records import StoreTooNew
from oarlock.schema.types.declaring import DeclarationError
from oarlock.server.assembly.lifecycle import serve_until_signal
from oarlock.server.assembly.own_work import StartTookTooLong
from oarlock.server.audit.sink import AuditError
from oarlock.server.config import ExtensionConfig, ServerConfig
from oarlock.server.description import ServerDescription
from oarlock.server.files.credentials import BadFile
from oarlock.server.options.commands import Command, CommandGroup, UsageError, run_command
from oarlock.server.options.option import ConfigError, OptionGroup, option
from oarlock.server.options.types import PathType
from oarlock.server.serving.certificates.tls import BadCertificateFile
from oarlock.server.serving.listener import AddressInUse, CannotListen
from oarlock.server.workers.supervisor import WorkerFailed, serve_with_workers
from oarlock.storage.backend import StorageError

try:
    import uvloop
except ImportError:  # pragma: no cover - where it doesn't exist
    uvloop = None  # type: ignore[assignment]


class CommandError(Exception):
    """An error that the user of the command can correct. The text says how."""


_CORRECTABLE = (
    CommandError,
    BadFile,
    BadCertificateFile,
    TokenFileError,
    CertificateBundleError,
    KeyFileError,
    StorageError,
    StoreTooNew,
    DeclarationError,
    CatalogError,
    WorkerFailed,
    StartTookTooLong,
    AuditError,
)


@dataclass(frozen=True, kw_only=True, repr=False)
class _ConfigFileOptions(OptionGroup):
    config: Path | None = option(
        None,
        PathType(),
        "Read options from this file, in YAML or JSON. Flags override it. `oarlock config` prints such a file.",
        in_file=False,
    )


@dataclass(frozen=True, kw_only=True, repr=False)
class ServeOptions(_ConfigFileOptions, ServerConfig):
    """The options of a server's command line: those of the server, and where to read more of them."""


@dataclass(frozen=True, kw_only=True, repr=False)
class ExtensionOptions(_ConfigFileOptions, ExtensionConfig):
    """The options of the command line of a server that a cluster may stand in front of."""


def main(server: ServerDescription, argv: Sequence[str] | None = None) -> None:
    """Run `server` with the options of ``oarlock serve``; ends the process."""

    def run(options: ExtensionOptions) -> int:
        set_up_logging(options.verbosity)
        return serve_with(server, options)

    command = Command(Path(sys.argv[0]).name, ExtensionOptions, run, f"Serve {server.name}.")
    sys.exit(exit_code_of(command, argv))


class _Terminal:
    """The URL or command to try goes to stdout, for scripts; messages go to stderr."""

    def print_result(self, line: str) -> None:
        print(line, flush=True)  # noqa: T201

    def print_message(self, line: str) -> None:
        print(line, file=sys.stderr, flush=True)  # noqa: T201


def serve_with(server: ServerDescription, config: ServerConfig) -> int:
    """Run until SIGTERM or SIGINT: the exit code."""
    with contextlib.suppress(OSError, ValueError, RuntimeError):  # stderr isn't a file
        faulthandler.enable()  # a library that breaks is named, on stderr, before the process ends
    if config.workers > 1:
        return serve_with_workers(server, config, _Terminal(), _correctable_text)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop if uvloop else None) as runner:
        runner.run(serve_until_signal(server, config, SystemClock(), _Terminal()))
    return 0


def exit_code_of(command: Command | CommandGroup, argv: Sequence[str] | None = None) -> int:
    """Run a command with its arguments, by default the process's. Errors become one line on stderr each."""
    try:
        return run_command(command, sys.argv[1:] if argv is None else argv)
    except (ConfigError, UsageError) as error:
        return max(_print_error(line, code=2) for line in error.lines)
    except (CannotListen, *_CORRECTABLE) as error:
        return _print_error(_correctable_text(error) or str(error))
    except KeyboardInterrupt:
        return 130


def _correctable_text(error: BaseException) -> str | None:
    """What to tell of an error that the user can correct; None for another one."""
    if isinstance(error, AddressInUse):
        return f"{error.strerror}: stop what listens there, or choose another --secure-port"
    if isinstance(error, CannotListen):
        return f"{error.strerror}: choose another --bind-address or --secure-port"
    if isinstance(error, _CORRECTABLE):
        logging.getLogger("oarlock").debug("the whole error", exc_info=error)
        return str(error)
    return None


def _print_error(text: str, code: int = 1) -> int:
    """Print an error on one line; several for those that point at a place in a CEL rule."""
    head, *excerpt = re.split(r"\n(?= \| )", text)
    print("oarlock:", "\n".join([" ".join(head.split()), *excerpt]), file=sys.stderr)  # noqa: T201
    return code


def set_up_logging(verbosity: int) -> None:
    """Log to stderr: warnings at 0, what the server does from 1, every request from 3, everything from 4."""
    level = logging.DEBUG if verbosity >= 4 else logging.INFO if verbosity else logging.WARNING
    logging.basicConfig(format="%(asctime)s %(levelname).1s %(name)s: %(message)s", level=logging.WARNING)
    logging.getLogger("oarlock").setLevel(level)
