"""The rules for what people call things in a project, and the names that are derived from these.

Each `check_…` returns the name, or raises `ScaffoldError` with the rule.
Must not know: files.
"""

from __future__ import annotations

import itertools
import keyword
import re
import sys

from oarlock.meta.names import dns1035_label, dns1123_subdomain
from oarlock.schema.types.definitions import plural_of

__all__ = [
    "ScaffoldError",
    "check_group",
    "check_kind",
    "check_plural",
    "check_project",
    "check_short_name",
    "check_subresource",
    "check_version",
    "collection_of",
    "module_of",
    "package_of",
    "plural_of",
    "words_of",
]


class ScaffoldError(Exception):
    """What can't be made, and what to write instead."""


_PROJECT = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_VERSION = re.compile(r"v[1-9][0-9]*((alpha|beta)[1-9][0-9]*)?")
_KIND = re.compile(r"[A-Z][A-Za-z0-9]*")
_SUBRESOURCE = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_BIG_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z][a-z0-9]*|[0-9]+")
_MOST = 63

_TAKEN_PACKAGES = frozenset({"api", "conftest", "oarlock", "samples", "tests"})

_IMPORTED = frozenset({
    "Admission", "Annotated", "Any", "AsyncIterator", "Channels", "Condition", "Context", "Controller", "Denied", "Doc",
    "FieldError", "Invalid", "Iterator", "ListMap", "Literal", "Model", "ObjectKey", "ObjectMeta", "Resource",
    "Result", "Review", "Scale", "Self", "Spoke", "StoredCollection", "VirtualCollection",
})  # fmt: skip
"""What the modules of a project import: a kind of such a name would hide it."""


def check_project(name: str) -> str:
    """The name of a project: it is a folder, a package on an index, and with ``_`` for ``-`` one of Python."""
    if not _PROJECT.fullmatch(name) or len(name) > _MOST:
        raise ScaffoldError(
            f"{name!r} isn't a valid project name: use lower-case letters, digits and single dashes, a letter "
            f"first, such as pizza-shop"
        )
    package = package_of(name)
    if keyword.iskeyword(package) or package in sys.stdlib_module_names or package in _TAKEN_PACKAGES:
        raise ScaffoldError(f"{name!r} isn't a valid project name: Python or oarlock has a module called {package}")
    return name


def check_group(name: str) -> str:
    """An API group: a domain."""
    if dns1123_subdomain(name) or "." not in name:
        raise ScaffoldError(
            f"{name!r} isn't a valid API group: write a domain of yours in lower case, such as demo.example.com"
        )
    if name.endswith(".k8s.io") or name == "k8s.io":
        raise ScaffoldError(f"{name!r} isn't available: groups below k8s.io are Kubernetes' own")
    return name


def check_version(name: str) -> str:
    """A version of an API."""
    if not _VERSION.fullmatch(name):
        raise ScaffoldError(f"{name!r} isn't a valid version: write v1, v1beta1, v2alpha3 and the like")
    return name


def check_kind(name: str) -> str:
    """A kind: one object, in the singular."""
    if not _KIND.fullmatch(name) or len(name) > _MOST:
        raise ScaffoldError(
            f"{name!r} isn't a valid kind: use letters and digits, an upper-case letter first, such as PizzaOrder"
        )
    if name.endswith("List") and name != "List":
        raise ScaffoldError(
            f"{name!r} isn't a valid kind: clients use this name for lists of {name.removesuffix('List')}"
        )
    if name in _IMPORTED or keyword.iskeyword(name):
        raise ScaffoldError(
            f"{name!r} isn't available as a kind: the project's modules import something else with this name"
        )
    return name


def check_plural(name: str) -> str:
    """A resource, as it is in paths."""
    if dns1035_label(name):
        raise ScaffoldError(f"{name!r} isn't a valid plural: use lower-case letters, digits and dashes, a letter first")
    return name


def check_short_name(name: str) -> str:
    """An abbreviation that kubectl knows."""
    if dns1035_label(name):
        raise ScaffoldError(
            f"{name!r} isn't a valid short name: use lower-case letters, digits and dashes, a letter first"
        )
    return name


def check_subresource(name: str) -> str:
    """A subresource with code of its own."""
    if not _SUBRESOURCE.fullmatch(name) or len(name) > _MOST:
        raise ScaffoldError(
            f"{name!r} isn't a valid subresource: use lower-case letters, digits and dashes, such as preview"
        )
    if name in ("status", "scale"):
        raise ScaffoldError(
            f"{name!r} is served by the class itself: write "
            + ("status_subresource=True" if name == "status" else 'scale=Scale(".spec.replicas", ".status.replicas")')
            + " beside its group and version"
        )
    return name


def words_of(kind: str) -> list[str]:
    """``PizzaOrder`` → ``pizza``, ``order``."""
    return [word.lower() for word in _BIG_WORD.findall(kind)]


def module_of(name: str) -> str:
    """The module for a kind, a plural or a subresource: ``PizzaOrder`` → ``pizza_order``, ``import`` → ``import_``."""
    module = "_".join(words_of(name)) if name[:1].isupper() else name.replace("-", "_")
    return f"{module}_" if keyword.iskeyword(module) else module


def collection_of(kind: str, plural: str = "") -> str:
    """The class for a kind's objects: ``Foos``, ``Policies``; with a plural, that in the kind's capitals: ``Boxes``.

    It is never the kind's own name, nor one that its module imports.
    """
    if plural in ("", plural_of(kind)):
        if kind.endswith("y") and kind[-2:-1] not in "aeiou":
            return f"{kind[:-1]}ies"
        return f"{kind}{'es' if kind.endswith('s') else 's'}"
    letters = zip(kind.lower(), plural, strict=False)
    same = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], letters))
    words = f"{kind[:same]}{plural[same:]}".split("-")
    name = "".join(word[:1].upper() + word[1:] for word in words)
    return f"{kind}Collection" if name == kind or name in _IMPORTED or keyword.iskeyword(name) else name


def package_of(project: str) -> str:
    """The package of a project."""
    return project.replace("-", "_")
