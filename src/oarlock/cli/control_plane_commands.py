"""The commands ``oarlock up`` and ``oarlock envtest``. See also: `up`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from importlib.metadata import entry_points
from pathlib import Path

from oarlock.apps.controlplane.options import KUBE_APISERVER_FLAGS, ControlPlaneOptions
from oarlock.apps.controlplane.part import InstalledParts
from oarlock.cli.envtest import write_programs
from oarlock.meta.dataclass import dataclass
from oarlock.server.command import ServeOptions, set_up_logging
from oarlock.server.options.commands import Command
from oarlock.server.options.option import OptionGroup, argument, option
from oarlock.server.options.types import PathType, StringListType

GROUP = "oarlock.parts"
"""The entry points by which other packages have parts in ``oarlock up``."""

_STRAY = "kinds of your own are served by oarlock serve, of a file with server = ControlPlane(serve=[…])"


@dataclass(frozen=True, kw_only=True, repr=False)
class _Up(ControlPlaneOptions, ServeOptions):
    title = ""


def _installed() -> Iterator[InstalledParts]:
    """What other packages add, in the order of their names. One that can't be loaded is told about and left out."""
    for point in sorted(set(entry_points(group=GROUP))):
        try:
            parts = point.load()
        except Exception as error:
            print(f"oarlock: the entry point {point.name!r} of {GROUP} can't be loaded: {error}", file=sys.stderr)
            continue
        yield parts


def up_command(installed: Sequence[InstalledParts]) -> Command:
    """``oarlock up`` with the flags and parts of other packages."""
    flags = type("_UpWithParts", (_Up, *(others.options for others in installed)), {"title": ""})

    def run(options: _Up) -> int:
        """Serve a control plane: Kubernetes' own kinds, without nodes.

        Writes an admin kubeconfig, and prints the kubectl line to try when it is ready.
        """
        set_up_logging(options.verbosity)
        from oarlock.cli.up import up  # noqa: PLC0415 (no other command needs it)

        return up(options, options, [make for others in installed for make in others.parts(options)])

    made = dataclass(flags, frozen=True, kw_only=True, repr=False) if installed else _Up
    return Command("up", made, run, unused=KUBE_APISERVER_FLAGS, stray=_STRAY)


@dataclass(frozen=True, kw_only=True, repr=False)
class _Envtest(OptionGroup):
    title = ""

    folder: Path = argument(PathType("DIR"), "The directory to write to.")
    controllers: tuple[str, ...] = option(
        (),
        StringListType("NAMES"),
        "The controllers of the kube-apiserver, as for oarlock up; * means all. By default none of "
        "kube-controller-manager's, as in envtest.",
    )


def _envtest(options: _Envtest) -> None:
    """Write programs called kube-apiserver and etcd for envtest. They run oarlock up.

    Prints the environment variable that makes controller-runtime's envtest use them.
    """
    write_programs(options.folder, options.controllers)


UP = up_command([*_installed()])
ENVTEST = Command("envtest", _Envtest, _envtest)
