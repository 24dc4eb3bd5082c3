"""The command ``oarlock crd``. See also: `carried`."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from oarlock.cli.crd.carried import exported, missing
from oarlock.cli.loading import load_declared
from oarlock.codec import yaml
from oarlock.meta.built_in import BUILT_IN_GROUPS
from oarlock.registry.served import Served
from oarlock.server.command import CommandError

__all__ = ["print_definitions"]


def print_definitions(where: str, resource: str, output: str) -> None:
    """Print the definitions on stdout, as ``json`` or ``yaml``, and what they lack on stderr."""
    chosen = _chosen(where, resource)
    trees = [exported(resource.definition) for resource in chosen]
    if output == "json":
        tree = trees[0] if len(trees) == 1 else {"apiVersion": "v1", "kind": "List", "items": trees}
        print(json.dumps(tree, indent=2))
    else:
        for tree in trees:
            print("---")
            print(yaml.encode(tree).decode(), end="")
    for served in chosen:
        for text in missing(served):
            print(f"{served.definition.names.kind}: not in it: {text}", file=sys.stderr)


def _chosen(where: str, resource: str) -> Sequence[Served]:
    every = load_declared(where)
    stored = [served for served in every if served.virtual is None]
    if resource:
        chosen = [served for served in stored if resource == str(served.definition.group_resource)]
    else:
        chosen = [served for served in stored if served.definition.group not in BUILT_IN_GROUPS]
    if chosen:
        return chosen
    names = ", ".join(str(served.definition.group_resource) for served in stored) or "nothing is stored"
    raise CommandError(f"{where}: no {resource or 'resource'} to print: {names}")
