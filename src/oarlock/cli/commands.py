"""The commands of ``oarlock``, but for those of a store, which are in `storage`.

Each is a few lines over what ``server`` and ``storage`` do. See also: `loading`, which imports the server;
``server.command``, which tells errors.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from oarlock.apps.controlplane.kube_apiserver_flags import KUBE_APISERVER_FLAGS
from oarlock.apps.controlplane.options import ControlPlaneOptions
from oarlock.cli.crd.command import print_definitions
from oarlock.cli.deploying.options import ManifestOptions
from oarlock.cli.describing import describe, warnings_about
from oarlock.cli.doctor.options import DoctorOptions
from oarlock.cli.image.options import ImageOptions
from oarlock.cli.loading import DeclarationsArgument, ServerArgument, load_server, source_folder
from oarlock.cli.reloading import serve_with_reload
from oarlock.cli.run_options import RunOptions
from oarlock.cli.storage.commands import STORAGE
from oarlock.server.about import own_version
from oarlock.server.command import ServeOptions, exit_code_of, serve_with, set_up_logging
from oarlock.server.options.commands import Command, CommandGroup
from oarlock.server.options.effective import as_file
from oarlock.server.options.option import OptionGroup, Problem, argument, option
from oarlock.server.options.types import BooleanType, PathType, StringType, WordType

__all__ = ["COMMANDS", "main"]


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


@dataclass(frozen=True, kw_only=True, repr=False)
class _Up(ControlPlaneOptions, ServeOptions):
    title = ""


def _up(options: _Up) -> int:
    """Serve a control plane: Kubernetes' own kinds, without nodes.

    Writes an admin kubeconfig, and prints the kubectl line to try once it is ready.
    """
    set_up_logging(options.verbosity)
    from oarlock.cli.up import up  # noqa: PLC0415 (no other command needs it)

    return up(options, options)


@dataclass(frozen=True, kw_only=True, repr=False)
class _Envtest(OptionGroup):
    title = ""

    folder: Path = argument(PathType("DIR"), "Where to write them.")


def _envtest(options: _Envtest) -> None:
    """Write a kube-apiserver and an etcd for envtest, which are oarlock up.

    Prints what to set so that Go tests with controller-runtime's envtest use them.
    """
    from oarlock.cli.envtest import write_programs  # noqa: PLC0415 (no other command needs it)

    write_programs(options.folder)


def _config(options: ServeOptions) -> None:
    """Print the effective configuration of a server, as a file for --config.

    Takes the flags of oarlock serve. Passwords are left out. Nothing is started and nothing is opened.
    """
    print(as_file(options), end="")


def _check(options: ServerArgument) -> None:
    """Show what an APIServer would serve, and what is doubtful about it.

    Nothing is started and nothing is opened. A mistake is told in one line; the exit code is then 1.
    """
    loaded = load_server(options.server)
    for line in describe(loaded):
        print(line)
    for warning in warnings_about(loaded):
        print(f"doubtful: {warning}")


@dataclass(frozen=True, kw_only=True, repr=False)
class _CRD(DeclarationsArgument):
    resource: str = argument(
        StringType("RESOURCE.GROUP"), "Only this one, for example orders.shop.example.com.", default=""
    )
    output: str = option("yaml", WordType("FORMAT", "yaml", "json"), "The format: yaml or json.", in_file=False)


def _crd(options: _CRD) -> None:
    """Print declared classes as CustomResourceDefinitions, for any cluster and for oarlock up.

    What such a definition can't say, such as hooks and conversions, is told on stderr, one line each.
    """
    print_definitions(options.declarations, options.resource, options.output)


@dataclass(frozen=True, kw_only=True, repr=False)
class _Proto(ServerArgument):
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


def _manifests(options: ManifestOptions) -> int:
    """Print the objects with which a cluster runs a server behind its own API server, as YAML.

    Namespace, ServiceAccount and its rights, Service, Deployment (StatefulSet with SQLite), NetworkPolicy, APIServices.
    """
    from oarlock.cli.deploying import command  # noqa: PLC0415 (no other command needs it)

    return command.run(options)


def _doctor(options: DoctorOptions) -> int:
    """Say why an APIService of a cluster isn't available, and what to do.

    It looks at what the cluster's aggregator looks at: Service, endpoints, certificate, front proxy, rights, answers.
    """
    from oarlock.cli.doctor import command  # noqa: PLC0415 (no other command needs it)

    return command.run(options)


def _image(options: ImageOptions) -> int:
    """Write an OCI image of a server, without a container engine.

    The same files make the same image. Packages are those that are installed here; nothing is downloaded.
    """
    from oarlock.cli.image import command  # noqa: PLC0415 (no other command needs it)

    return command.run(options)


def _run(options: RunOptions) -> int:
    """Run controllers outside of a server, until SIGTERM or SIGINT.

    FILE has them in a list called controllers, or in an APIServer. What happens is told on stderr.
    """
    from oarlock.cli.running import run  # noqa: PLC0415 (no other command needs it)

    return run(options)


COMMANDS = CommandGroup(
    "oarlock",
    "Kubernetes-style API servers in Python.",
    (
        Command("serve", _Serve, _serve),
        Command("up", _Up, _up, unused=KUBE_APISERVER_FLAGS),
        Command("run", RunOptions, _run),
        Command("envtest", _Envtest, _envtest),
        Command("config", ServeOptions, _config),
        Command("check", ServerArgument, _check),
        Command("crd", _CRD, _crd),
        Command("proto", _Proto, _proto),
        Command("image", ImageOptions, _image),
        Command("manifests", ManifestOptions, _manifests),
        Command("doctor", DoctorOptions, _doctor),
        STORAGE,
    ),
    version=own_version(),
)
"""Every command there is."""


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line; ends the process."""
    sys.exit(exit_code_of(COMMANDS, argv))
