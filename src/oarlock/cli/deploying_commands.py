"""The commands for servers and controllers elsewhere: ``oarlock run``, ``image``, ``manifests`` and ``doctor``."""

from __future__ import annotations

from oarlock.cli.cluster_options import DoctorOptions, RunOptions
from oarlock.cli.deploying.plan import ManifestOptions
from oarlock.cli.image.options import ImageOptions
from oarlock.server.options.commands import Command


def _run(options: RunOptions) -> int:
    """Run controllers outside of a server, until SIGTERM or SIGINT.

    FILE contains a list called controllers, or an APIServer with controllers. The log goes to stderr.
    """
    if options.webhooks:
        from oarlock.cli.webhook_commands import run_beside  # noqa: PLC0415 (no other command needs it)

        return run_beside(options)
    from oarlock.cli.running import run  # noqa: PLC0415 (no other command needs it)

    return run(options)


def _image(options: ImageOptions) -> int:
    """Write an OCI image of a server, without a container engine.

    The packages are copied from this Python; nothing is downloaded. The same files produce the same image.
    """
    from oarlock.cli.image import command  # noqa: PLC0415 (no other command needs it)

    return command.run(options)


def _manifests(options: ManifestOptions) -> int:
    """Print the objects that run a server in a cluster, behind the cluster's API server, as YAML.

    Namespace, ServiceAccount and its permissions, Service, Deployment (StatefulSet with SQLite), NetworkPolicy and
    APIServices.
    """
    from oarlock.cli.deploying import command  # noqa: PLC0415 (no other command needs it)

    return command.run(options)


def _doctor(options: DoctorOptions) -> int:
    """Print why an APIService of a cluster isn't available, and what to do.

    Checks what the cluster's aggregator uses: Service, endpoints, certificate, front proxy, permissions, answers.
    """
    from oarlock.cli.doctor import command  # noqa: PLC0415 (no other command needs it)

    return command.run(options)


RUN = Command("run", RunOptions, _run)
IMAGE = Command("image", ImageOptions, _image)
MANIFESTS = Command("manifests", ManifestOptions, _manifests)
DOCTOR = Command("doctor", DoctorOptions, _doctor)
