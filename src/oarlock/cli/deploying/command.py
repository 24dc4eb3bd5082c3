"""Prints the objects of a server, writes them as a kustomize base, or compares them with a cluster.

See also: `plan`, `objects`; `comparing`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

from oarlock.cli.deploying.comparing import compare_with_cluster
from oarlock.cli.deploying.objects import objects_of
from oarlock.cli.deploying.options import ManifestOptions
from oarlock.cli.deploying.plan import plan_of
from oarlock.cli.loading import load_server
from oarlock.codec import yaml
from oarlock.meta.json_trees import Tree
from oarlock.server.app import APIServer
from oarlock.server.command import CommandError

__all__ = ["run"]

HEADER = "# Written by oarlock manifests, which overwrites it.\n"
KUSTOMIZATION = "kustomization.yaml"


def run(options: ManifestOptions) -> int:
    """The exit code. Raises `CommandError`, `DeclarationError`."""
    server = load_server(options.server)
    plan = plan_of(server, options)
    for line in _notes(server, options):
        print(f"oarlock: {line}", file=sys.stderr)
    objects = objects_of(plan, time.time())
    if options.compare:
        return compare_with_cluster(objects, options.kubeconfig, options.context)
    if options.output is None:
        print("---\n".join(yaml.encode(manifest).decode() for manifest in objects), end="")
        return 0
    for file in _write(options.output, objects):
        print(file)
    return 0


def _notes(server: APIServer, options: ManifestOptions) -> Iterator[str]:
    """What the objects may lack that only their user can know."""
    virtual = [resource.definition.names.kind for resource in server.catalog.resources if resource.virtual is not None]
    if virtual and not options.egress:
        yield (
            f"the network policy lets the server reach names, HTTPS, the cluster and its store; if the code of "
            f"{', '.join(virtual)} asks something else, give --egress=PORT"
        )


def _write(folder: Path, objects: list[Tree]) -> list[Path]:
    """Write a file for each object, and the list of them. Raises `CommandError`, before anything is overwritten."""
    contents = {_file_name(manifest): yaml.encode(manifest).decode() for manifest in objects}
    base = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": list(contents)}
    contents[KUSTOMIZATION] = yaml.encode(base).decode()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in contents:
            if (folder / name).exists() and not (folder / name).read_text().startswith(HEADER):
                raise CommandError(f"{folder / name}: it isn't from oarlock manifests: move it, or write elsewhere")
        written = []
        for name, text in contents.items():
            path = folder / name
            path.touch(mode=0o600 if name.startswith("secret-") else 0o644)  # a Secret has a key, or a password
            path.write_text(HEADER + text)
            written.append(path)
    except (OSError, UnicodeDecodeError) as error:
        where, why = getattr(error, "filename", None) or folder, getattr(error, "strerror", None) or error
        raise CommandError(f"{where}: {why}") from None
    return written


def _file_name(tree: Tree) -> str:
    name = tree["metadata"]["name"].replace(":", "-")
    return f"{tree['kind'].lower()}-{name}.yaml"
