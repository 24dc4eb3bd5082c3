"""Prints the objects of a server, writes them as a kustomize base, or compares them with those of a cluster.

See also: `plan`, `objects`.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from oarlock.apps.api_server import APIServer
from oarlock.apps.webhooks.server import reviewed
from oarlock.cli.deploying.objects import objects_of
from oarlock.cli.deploying.plan import DEFINITIONS, ManifestOptions, plan_of, plan_of_webhooks
from oarlock.cli.loading import load_code, load_server
from oarlock.cli.webhook_commands import told
from oarlock.client.client import Client
from oarlock.client.http_transport import connect
from oarlock.client.login.kubeconfig import ClientConfigError, load_config
from oarlock.client.transport import TransportError
from oarlock.codec import yaml
from oarlock.meta.errors import StatusError
from oarlock.meta.json_trees import Tree
from oarlock.server.command import CommandError
from oarlock.server.options.commands import Command

DEADLINE_S = 60.0

_CERTIFICATE_FIELDS = ("data.ca.crt", "data.tls.crt", "data.tls.key", "caBundle")
"""They differ from one run of the command to the next."""


def compare_with_cluster(objects: list[Tree], kubeconfig: Path | None, context: str) -> int:
    """Print what is missing or differs in the cluster: the exit code. Raises `CommandError`."""
    try:
        client = connect(load_config(kubeconfig, context=context))
    except (ClientConfigError, TransportError, ValueError) as error:
        raise CommandError(str(error)) from None
    try:
        lines = asyncio.run(_compare(client, objects))
    except (TransportError, TimeoutError) as error:
        raise CommandError(f"the cluster can't be reached: {error or 'no answer'}") from None
    for line in lines:
        print(line)
    if not lines:
        print(f"all {len(objects)} objects are in the cluster, without differences")
    return 1 if lines else 0


async def _compare(client: Client, objects: list[Tree]) -> list[str]:
    lines = []
    async with asyncio.timeout(DEADLINE_S), client:
        for wanted in objects:
            metadata = wanted["metadata"]
            namespace = metadata.get("namespace", "")
            shown = f"{wanted['kind']} {namespace}/{metadata['name']}" if namespace else _shown(wanted)
            try:
                held = await client.get(
                    f"{wanted['apiVersion']}/{wanted['kind']}", metadata["name"], namespace=namespace
                )
            except StatusError as error:
                lines.append(f"{shown}: {'missing' if error.code == 404 else error.message}")
            except ValueError as error:
                lines.append(f"{shown}: {error}")
            else:
                lines += [f"{shown}: {line}" for line in differences(wanted, held)]
    return lines


def _shown(tree: Tree) -> str:
    return f"{tree['kind']} {tree['metadata']['name']}"


def differences(wanted: Tree, held: Tree) -> list[str]:
    """A line for each field of `wanted` that `held` has not, or otherwise. Shows no secret."""
    secret = wanted.get("kind") == "Secret"
    return [
        line if not secret else line.partition(":")[0] + ": differs"
        for line in _fields(wanted, held, "")
        if not line.partition(":")[0].endswith(_CERTIFICATE_FIELDS)
    ]


def _fields(wanted: Any, held: Any, path: str) -> Iterator[str]:
    if isinstance(wanted, dict) and isinstance(held, dict):
        for name, value in wanted.items():
            yield from _fields(value, held.get(name), f"{path}.{name}" if path else name)
    elif isinstance(wanted, list) and isinstance(held, list) and len(wanted) == len(held):
        for position, value in enumerate(wanted):
            yield from _fields(value, held[position], f"{path}[{position}]")
    elif wanted != held and not (wanted in ({}, [], "", 0) and held is None):
        yield f"{path}: {_text(held)}, should be {_text(wanted)}"


def _text(value: Any) -> str:
    if value is None:
        return "missing"
    text = str(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


HEADER = "# Written by oarlock manifests, which overwrites it.\n"
KUSTOMIZATION = "kustomization.yaml"


def run(options: ManifestOptions) -> int:
    """Print the objects that run a server in a cluster, behind the cluster's API server, as YAML.

    Namespace, ServiceAccount and its permissions, Service, Deployment (StatefulSet with SQLite), NetworkPolicy and
    APIServices.
    """
    if options.home == DEFINITIONS:
        code = load_code(options.server)
        plan, notes = plan_of_webhooks(code, options), told(reviewed(code.resources))
    else:
        server = load_server(options.server)
        plan, notes = plan_of(server, options), _notes(server, options)
    for line in notes:
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
                raise CommandError(
                    f"{folder / name}: oarlock manifests didn't write this file: move it, or write to another directory"
                )
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


MANIFESTS = Command("manifests", ManifestOptions, run)
