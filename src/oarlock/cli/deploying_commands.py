"""The commands for servers and controllers elsewhere: ``oarlock run``, ``image``, ``manifests`` and ``doctor``."""

from __future__ import annotations

from oarlock.cli.cluster_options import DoctorOptions, RunOptions
from oarlock.cli.deploying.plan import ManifestOptions
from oarlock.cli.image.options import ImageOptions
from oarlock.server.options.commands import Command

__all__ = ["DOCTOR", "IMAGE", "MANIFESTS", "RUN"]


def _run(options: RunOptions) -> int:
    """Run controllers outside of a server, until SIGTERM or SIGINT.

    FILE has them in a list called controllers, or in an APIServer. What happens is told on stderr.
    """
    from oarlock.cli.running import run  # noqa: PLC0415 (no other command needs it)

    return run(options)


def _image(options: ImageOptions) -> int:
    """Write an OCI image of a server, without a container engine.

    The same files make the same image. Packages are those that are installed here; nothing is downloaded.
    """
    from oarlock.cli.image import command  # noqa: PLC0415 (no other command needs it)

    return command.run(options)


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


RUN = Command("run", RunOptions, _run)
IMAGE = Command("image", ImageOptions, _image)
MANIFESTS = Command("manifests", ManifestOptions, _manifests)
DOCTOR = Command("doctor", DoctorOptions, _doctor)
