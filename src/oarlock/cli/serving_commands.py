"""The commands ``oarlock serve``, also with ``--reload``, ``oarlock config`` and ``oarlock console``.

With ``--reload`` the server is a child process, which is started again when a Python file changes.
See also: ``server.command``.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

from oarlock.cli.loading import ServerArgument, load_server, source_folder
from oarlock.cli.reloading import serve_with_reload
from oarlock.meta.dataclass import dataclass
from oarlock.server.command import ExtensionOptions, serve_with, set_up_logging
from oarlock.server.options.commands import Command
from oarlock.server.options.file import as_file
from oarlock.server.options.option import OptionGroup, Problem, option
from oarlock.server.options.types import BooleanType, PathType, StringType
from oarlock.server.pages.static_files import CONSOLE_ROOT, write_console


@dataclass(frozen=True, kw_only=True, repr=False)
class _Serve(ServerArgument, ExtensionOptions):
    title = ""

    reload: bool = option(
        False,
        BooleanType(),
        "Restart when a Python file in the server's folder changes. For development.",
        in_file=False,
    )
    behind: Path | None = option(
        None,
        PathType(),
        "Serve behind the control plane that this kubeconfig names, on this machine: it is told of the server by "
        "APIServices, and says who users are and what they may do.",
        in_file=False,
    )

    def check(self) -> Iterator[Problem]:
        if self.reload and self.workers > 1:
            yield Problem("reload", "works with one process only: leave it out, or leave out `workers`")
        if self.behind is not None and not self.secure_port:
            yield Problem("behind", "the APIServices name the port: set `secure_port`")


def _serve(options: _Serve) -> int:
    """Serve an APIServer to Kubernetes clients.

    Prints the kubectl line to try when it is ready. SIGTERM and SIGINT (Ctrl-C) shut it down in order; a second one
    ends it at once.
    """
    set_up_logging(options.verbosity)
    if options.reload:
        words = [word for word in sys.argv[1:] if word.partition("=")[0] != "--reload"]
        return serve_with_reload(words, source_folder(options.server))
    server = load_server(options.server)
    if options.behind is None:
        return serve_with(server, options)
    from oarlock.cli.behind import put_behind  # noqa: PLC0415 (few servers are put there)

    return serve_with(server, put_behind(server, options, options.behind))


def _config(options: ExtensionOptions) -> None:
    """Print the effective configuration of a server, as a file for --config.

    Takes the flags of oarlock serve. Passwords are left out. No server is started and no store is opened.
    """
    print(as_file(options), end="")


@dataclass(frozen=True, kw_only=True, repr=False)
class _Console(OptionGroup):
    title = ""

    output: Path = option(Path("console"), PathType("DIR"), "The directory to write to.", short="o", in_file=False)
    name: str = option("cluster", StringType("NAME"), "The name of the server, as the page shows it.", in_file=False)


def _console(options: _Console) -> None:
    """Write the console as files, for a server that has none, such as kube-apiserver.

    Prints the kubectl proxy that serves them, with the credentials of the kubeconfig.
    """
    write_console(options.output, options.name)
    print(f"kubectl proxy --www={shlex.quote(str(options.output))} --www-prefix={CONSOLE_ROOT}/")
    print(f"Then open http://127.0.0.1:8001{CONSOLE_ROOT}/")


SERVE = Command("serve", _Serve, _serve)
CONFIG = Command("config", ExtensionOptions, _config)
CONSOLE = Command("console", _Console, _console)
