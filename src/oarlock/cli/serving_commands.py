"""The commands ``oarlock serve`` and ``oarlock config``. See also: ``server.command``."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from oarlock.cli.loading import ServerArgument, load_server, source_folder
from oarlock.cli.reloading import serve_with_reload
from oarlock.meta.dataclass import dataclass
from oarlock.server.command import ServeOptions, serve_with, set_up_logging
from oarlock.server.options.commands import Command
from oarlock.server.options.file import as_file
from oarlock.server.options.option import Problem, option
from oarlock.server.options.types import BooleanType

__all__ = ["CONFIG", "SERVE"]


@dataclass(frozen=True, kw_only=True, repr=False)
class _Serve(ServerArgument, ServeOptions):
    title = ""

    reload: bool = option(
        False,
        BooleanType(),
        "Start again when a Python file beside the server changes. For development.",
        in_file=False,
    )

    def check(self) -> Iterator[Problem]:
        if self.reload and self.workers > 1:
            yield Problem("reload", "is for one process: leave it out, or `workers`")


def _serve(options: _Serve) -> int:
    """Serve an APIServer to Kubernetes clients.

    Prints the kubectl line to try once it is ready. SIGTERM and SIGINT (Ctrl-C) let it leave in order; twice, at once.
    """
    set_up_logging(options.verbosity)
    if options.reload:
        words = [word for word in sys.argv[1:] if word.partition("=")[0] != "--reload"]
        return serve_with_reload(words, source_folder(options.server))
    return serve_with(load_server(options.server), options)


def _config(options: ServeOptions) -> None:
    """Print the effective configuration of a server, as a file for --config.

    Takes the flags of oarlock serve. Passwords are left out. Nothing is started and nothing is opened.
    """
    print(as_file(options), end="")


SERVE = Command("serve", _Serve, _serve)
CONFIG = Command("config", ServeOptions, _config)
