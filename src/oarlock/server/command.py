"""A server as a command: option parsing, logging, one-line error messages, exit codes.

``oarlock serve`` and `APIServer.main` use this. See also: `options`, `lifecycle`.
"""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import inspect
import logging
import re
import sys
import typing
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any

import typer

from oarlock.endpoints.catalog import CatalogError
from oarlock.policy.authn.certificates import CertificateBundleError
from oarlock.policy.authn.token_file import TokenFileError
from oarlock.registry.records import StoreTooNew
from oarlock.schema.declaring import DeclarationError
from oarlock.server.clock import SystemClock
from oarlock.server.config import ServerConfig
from oarlock.server.credentials import BadFile
from oarlock.server.lifecycle import live
from oarlock.server.options import BadOption, ServeOptions, config_of
from oarlock.server.run import ServerDescription
from oarlock.server.serving.server import AddressInUse, CannotListen
from oarlock.server.serving.tls import BadCertificateFile
from oarlock.storage.backend import StorageError

try:
    import uvloop
except ImportError:  # pragma: no cover - where it doesn't exist
    uvloop = None  # type: ignore[assignment]

__all__ = ["CommandError", "main", "new_app", "run_app", "serve_with", "set_up_logging", "with_serve_options"]


class CommandError(Exception):
    """An error that the user of the command can correct. The text says how."""


_KNOWN = (
    CommandError,
    BadOption,
    BadFile,
    BadCertificateFile,
    TokenFileError,
    CertificateBundleError,
    StorageError,
    StoreTooNew,
    DeclarationError,
    CatalogError,
)


def main(server: ServerDescription, argv: Sequence[str] | None = None) -> None:
    """Run `server` with the options of ``oarlock serve``; ends the process."""
    app = new_app()

    def command(options: ServeOptions) -> None:
        set_up_logging(options.verbosity)
        serve_with(server, config_of(options))

    app.command(help=f"Serve {server.name}.")(with_serve_options(command))
    sys.exit(run_app(app, argv))


def new_app(help: str | None = None) -> typer.Typer:
    """A typer app for `run_app`: plain help, also with ``-h``, and no tracebacks of its own."""
    return typer.Typer(
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        help=help,
    )


class _Terminal:
    """The URL or command to try goes to stdout, for scripts; messages go to stderr."""

    def announce(self, line: str) -> None:
        print(line, flush=True)  # noqa: T201

    def tell(self, line: str) -> None:
        print(line, file=sys.stderr, flush=True)  # noqa: T201


def serve_with(server: ServerDescription, config: ServerConfig) -> None:
    """Run until SIGTERM or SIGINT."""
    with contextlib.suppress(OSError, ValueError, RuntimeError):  # stderr isn't a file
        faulthandler.enable()  # a library that breaks is named, on stderr, before the process ends
    with asyncio.Runner(loop_factory=uvloop.new_event_loop if uvloop else None) as runner:
        runner.run(live(server, config, SystemClock(), _Terminal()))


def with_serve_options(command: Callable[..., None]) -> Callable[..., None]:
    """`command(*arguments, options)` as a function with every option of `ServeOptions` as a parameter, for typer.

    Other parameters of `command` stay as they are.
    """
    hints = typing.get_type_hints(ServeOptions, include_extras=True)
    own = [p for p in inspect.signature(command, eval_str=True).parameters.values() if p.name != "options"]
    options = [
        inspect.Parameter(f.name, inspect.Parameter.KEYWORD_ONLY, default=f.default, annotation=hints[f.name])
        for f in fields(ServeOptions)
    ]

    def typed(**values: Any) -> None:
        chosen = ServeOptions(**{f.name: values.pop(f.name) for f in fields(ServeOptions)})
        command(**values, options=chosen)

    parameters = [*(p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own), *options]
    typed.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    typed.__annotations__ = {p.name: p.annotation for p in parameters}
    typed.__doc__ = command.__doc__
    return typed


def run_app(app: typer.Typer, argv: Sequence[str] | None = None) -> int:
    """Run a command; errors become one line on stderr. Returns the exit code."""
    try:
        app(args=None if argv is None else list(argv), standalone_mode=False)
    except AddressInUse as error:
        return _say(f"{error.strerror}: stop what listens there, or choose another --secure-port")
    except CannotListen as error:
        return _say(f"{error.strerror}: choose another --bind-address or --secure-port")
    except _KNOWN as error:
        logging.getLogger("oarlock").debug("the whole error", exc_info=True)
        return _say(str(error))
    except typer.Exit as left:
        return left.exit_code
    except (typer.Abort, KeyboardInterrupt):
        return 130
    except Exception as error:
        if not hasattr(error, "format_message"):  # typer's own errors have this attribute, whatever their class
            raise
        context = getattr(error, "ctx", None)
        whole = f"{context.command_path} --help" if context is not None else "--help"
        return _say(f"{error.format_message().rstrip('.')}; see {whole}", code=2)
    return 0


def _say(text: str, code: int = 1) -> int:
    """Print an error on one line; several for those that point at a place in a CEL rule."""
    head, *shown = re.split(r"\n(?= \| )", text)
    print("oarlock:", "\n".join([" ".join(head.split()), *shown]), file=sys.stderr)  # noqa: T201
    return code


def set_up_logging(verbosity: int) -> None:
    """Log to stderr: warnings at 0, what the server does from 1, every request from 3, everything from 4."""
    level = logging.DEBUG if verbosity >= 4 else logging.INFO if verbosity else logging.WARNING
    logging.basicConfig(format="%(asctime)s %(levelname).1s %(name)s: %(message)s", level=logging.WARNING)
    logging.getLogger("oarlock").setLevel(level)
