"""The commands ``oarlock up`` and ``oarlock envtest``: programs that stand where envtest looks for Kubernetes'.

envtest (of controller-runtime, and what follows it) starts ``etcd`` and waits for its ``/health``, then with its
address ``kube-apiserver``, and waits for that one's ``/healthz``. The kube-apiserver is a control plane whose objects
are in its memory, so the etcd gets no requests. Tests for envtest count on what a kube-apiserver alone doesn't do:
nobody empties namespaces or makes service accounts there, unless ``--controllers`` says so.
See also: `up`; ``testing.etcd_stand_in``.
"""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from importlib.metadata import entry_points
from pathlib import Path

from oarlock.apps.controlplane.options import KUBE_APISERVER_FLAGS, ControlPlaneOptions
from oarlock.apps.controlplane.part import InstalledParts
from oarlock.meta.dataclass import dataclass
from oarlock.server.command import CommandError, ServeOptions, set_up_logging
from oarlock.server.options.commands import Command
from oarlock.server.options.option import OptionGroup, argument, option
from oarlock.server.options.types import PathType, StringListType

_WRITTEN_BY = "# Written by oarlock envtest"
_PROGRAMS = {
    "kube-apiserver": (
        "from oarlock.cli import control_plane_commands, main; "
        "main(control_plane_commands.up_words(sys.argv[1:], {controllers!r}))"
    ),
    "etcd": "from oarlock.testing.etcd_stand_in import main; sys.exit(main())",
}


def write_programs(folder: Path, controllers: Sequence[str] = ()) -> None:
    """Write them into `folder`, with a link to kubectl if there is one; print what to set.

    `controllers` are those that run in the kube-apiserver, as ``oarlock up --controllers`` has them; none of
    kube-controller-manager's unless given. Raises CommandError.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, code in _PROGRAMS.items():
            file = folder / name
            if file.exists() and _WRITTEN_BY not in file.read_text(errors="replace"):
                raise CommandError(
                    f"{file}: this file exists and isn't overwritten: remove it, or write to another folder"
                )
            line = shlex.join([sys.executable, "-c", f"import sys; {code.format(controllers=','.join(controllers))}"])
            file.write_text(f'#!/bin/sh\n{_WRITTEN_BY}.\nexec {line} "$@"\n')
            file.chmod(0o755)
        kubectl, link = shutil.which("kubectl"), folder / "kubectl"
        if kubectl is not None and not link.exists():
            link.symlink_to(kubectl)
    except OSError as error:
        raise CommandError(f"{error.filename or folder}: {error.strerror}") from None
    print(f"export KUBEBUILDER_ASSETS={folder.resolve()}")


def up_words(words: Sequence[str], controllers: str = "") -> list[str]:
    """The words of ``oarlock up`` for the flags of a kube-apiserver: objects in memory, the rest in ``--cert-dir``.

    `controllers` are those of kube-controller-manager's that run unless the flags say which.
    """
    left: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if not word.startswith("--etcd-"):
            left.append(word)
        elif "=" not in word and rest and not rest[0].startswith("--"):
            rest.pop(0)  # its value
    folders = [word.partition("=")[2] for word in left if word.startswith("--cert-dir=")]
    own = [] if any(word.startswith("--controllers") for word in left) else [f"--controllers={controllers}"]
    return ["up", *own, *left, "--storage=memory://", *(f"--data-dir={folder}" for folder in folders[-1:])]


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
