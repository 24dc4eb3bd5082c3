"""``oarlock model``: prints classes, and tells on stderr what they don't say.

What was printed is made once, and its schemas are compared with those it was made from.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence

from oarlock.cli.cluster_options import ModelOptions
from oarlock.cli.doctor.cluster import ClusterView
from oarlock.cli.modelling.check import classes_in, differences
from oarlock.cli.modelling.classes import ClassSource
from oarlock.cli.modelling.sources import definitions_in_cluster, definitions_in_file, is_file
from oarlock.client.client import Client
from oarlock.client.connecting import connect
from oarlock.client.keywords import RetryPolicy
from oarlock.client.login.config import ClientConfigError
from oarlock.client.login.kubeconfig import load_config
from oarlock.client.transport import TransportError
from oarlock.schema.definition import ResourceDefinition
from oarlock.schema.types.declaring import DeclarationError
from oarlock.server.command import CommandError

DEADLINE_S = 60.0


def run(options: ModelOptions) -> int:
    """The exit code: 1 if the classes can't be made. Raises `CommandError`."""
    told: list[str] = []

    def tell(path: str, what: str) -> None:
        told.append(f"{path}: {what}")

    if is_file(options.source):
        definitions = definitions_in_file(options.source, tell)
    else:
        try:
            client = connect(load_config(options.kubeconfig, context=options.context))
            definitions = asyncio.run(_asked(client, options.source, told))
        except (ClientConfigError, TransportError, ValueError) as error:
            raise CommandError(str(error)) from None
        except TimeoutError:
            raise CommandError(f"the cluster takes longer than {DEADLINE_S:g} s to answer") from None
    source, more, right = classes_for(definitions)
    print(source, end="")
    for line in [*told, *more]:
        print(f"not in it: {line}", file=sys.stderr)
    return 0 if right else 1


async def _asked(client: Client, name: str, told: list[str]) -> Sequence[ResourceDefinition]:
    async with asyncio.timeout(DEADLINE_S), client:
        view = ClusterView(client.using(retries=RetryPolicy(retries=0)))
        return await definitions_in_cluster(view, name, lambda path, what: told.append(f"{path}: {what}"))


def classes_for(definitions: Sequence[ResourceDefinition]) -> tuple[str, list[str], bool]:
    """The source, what it doesn't say, and whether the classes in it can be made."""
    names = ", ".join(
        f"{definition.names.kind} of {definition.group or 'the core group'}" for definition in definitions
    )
    made = ClassSource(definitions, f"{names}.")
    source = str(made)
    try:
        found = [*differences(definitions, classes_in(source))]
    except DeclarationError as error:
        return source, [*made.told, f"a mistake that a class isn't allowed: {error}"], False
    return source, [*made.told, *found], True
