"""Names in OpenAPI documents: definitions, tags and operations.

Definition names are reversed domains, so that documents of several servers can be merged; generated clients use
operation ids as method names.
Must not know: what is in a document. See also: `kinds` and `operations`.
"""

from __future__ import annotations

import re

from oarlock.meta.built_in import BUILT_IN_GROUPS
from oarlock.meta.kinds import GroupVersionKind

__all__ = ["META", "article", "camel", "definition_name", "group_tag", "meta_name", "title"]

META = "io.k8s.apimachinery.pkg.apis.meta.v1."
"""The prefix of the types every server has, as clients and generators expect it."""


def meta_name(kind: str) -> str:
    return META + kind


def definition_name(gvk: GroupVersionKind) -> str:
    """``wardle.example.com/v1 Flunder`` → ``com.example.wardle.v1.Flunder``; Kubernetes' own kinds as it names them."""
    built_in = BUILT_IN_GROUPS.get(gvk.group)
    package = built_in.package if built_in is not None else ".".join(reversed(gvk.group.split(".")))
    return f"{package}.{gvk.version}.{gvk.kind}"


def title(text: str) -> str:
    """The text with its first letter in upper case, the others as they are."""
    return text[:1].upper() + text[1:]


def article(kind: str) -> str:
    """``a Pod``, ``an Ingress``; ``Endpoints`` are many."""
    if kind.endswith("s") and not kind.endswith("ss"):
        return kind
    return f"{'an' if kind[:1] in 'AEIOUaeiou' else 'a'} {kind}"


def camel(group: str) -> str:
    """``wardle.example.com`` → ``WardleExampleCom``, ``storage.k8s.io`` → ``Storage``."""
    parts = re.split(r"[^A-Za-z0-9]+", group.removesuffix(".k8s.io"))
    return "".join(map(title, parts)) if group else "Core"


def group_tag(group: str) -> str:
    """``wardle.example.com`` → ``wardleExampleCom``."""
    name = camel(group)
    return name[:1].lower() + name[1:]
