"""Joins a server's kubeconfig with what others have in the file. See also: `data_directory`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from oarlock.server.files.credentials import BadFile

_NO_KUBECONFIG = "it isn't a kubeconfig and isn't overwritten: move it, or set another --write-kubeconfig"


def merged(file: Path, present: bytes, added: bytes) -> tuple[bytes, bool]:
    """`present` with the entries of `added`, and whether the current context is that of `added`.

    Both are YAML; `file` is where the first is, for messages. A current context that is there stays. Raises `BadFile`.
    """
    tree, own = _kubeconfig(file, present), yaml.safe_load(added)
    for part in ("clusters", "users", "contexts"):
        name = own[part][0]["name"]
        tree[part] = [*(entry for entry in tree.get(part) or () if entry.get("name") != name), *own[part]]
    if tree.get("current-context") not in [context.get("name") for context in tree["contexts"]]:
        tree["current-context"] = own["current-context"]
    if tree == own:
        return added, True
    return yaml.safe_dump(tree, sort_keys=False).encode(), bool(tree["current-context"] == own["current-context"])


def _kubeconfig(file: Path, present: bytes) -> dict[str, Any]:
    try:
        tree = yaml.safe_load(present)
    except (yaml.YAMLError, UnicodeDecodeError):
        raise BadFile(f"{file}: {_NO_KUBECONFIG}") from None
    tree = {"apiVersion": "v1", "kind": "Config"} if tree is None else tree
    if not isinstance(tree, dict) or tree.get("kind", "Config") != "Config":
        raise BadFile(f"{file}: {_NO_KUBECONFIG}")
    for part in ("clusters", "users", "contexts"):
        entries = tree.get(part) or []
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise BadFile(f"{file}: {_NO_KUBECONFIG}")
    return tree
