"""The options of ``oarlock manifests``. See also: `command`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from oarlock.cli.deploying.needs import allowed_rule, reached
from oarlock.cli.loading import ServerArgument
from oarlock.meta.dataclass import dataclass
from oarlock.meta.names import dns1035_label, dns1123_label
from oarlock.meta.quantities import QuantityError, parse_quantity
from oarlock.server.options.option import Problem, option
from oarlock.server.options.types import BooleanType, IntegerType, PathType, SeparateListType, StringType, URLType

__all__ = ["CERTIFICATES", "ManifestOptions"]

CERTIFICATES = ("generated", "cert-manager", "renewed")
"""Where the serving certificate comes from; see --certificates."""


def _reached(text: str) -> str:
    reached(text)
    return text


def _rule(text: str) -> str:
    allowed_rule(text)
    return text


@dataclass(frozen=True, kw_only=True, repr=False)
class ManifestOptions(ServerArgument):
    """The options of ``oarlock manifests``."""

    title = ""

    namespace: str = option("", StringType("NAME"), "The namespace to run in.", short="n", in_file=False)
    image: str = option(
        "", StringType("IMAGE"), "The image to run, such as one that oarlock image wrote.", in_file=False
    )
    name: str = option(
        "",
        StringType("NAME"),
        "What the objects are called; the name that APIServer was given, or that of its file, unless given.",
        in_file=False,
    )
    path_in_image: str = option(
        "",
        StringType("PATH"),
        "What oarlock serve is given in the image; the server's file in the working directory unless given.",
        in_file=False,
    )
    replicas: int = option(
        0,
        IntegerType(maximum=100),
        "How many servers; 0 is two, and one with a store of a single process.",
        in_file=False,
    )
    storage: str = option(
        "",
        URLType(),
        "The store that the servers share: postgresql://…, mysql://… or etcd://…. Unless given, SQLite on a volume.",
        in_file=False,
    )
    storage_size: str = option("1Gi", StringType("QUANTITY"), "The size of SQLite's volume.", in_file=False)
    storage_class: str = option(
        "",
        StringType("NAME"),
        "The StorageClass of SQLite's volume; the cluster's default unless given.",
        in_file=False,
    )
    certificates: str = option(
        "renewed",
        StringType("WHO"),
        "Who makes the serving certificate: renewed, the servers themselves, again and again; generated, this command, "
        "for a year; cert-manager.",
        in_file=False,
    )
    allow: tuple[str, ...] = option(
        (),
        SeparateListType("VERBS:RESOURCES", _rule),
        "Let the server do this with objects of the cluster, such as get,list,watch:nodes or get:deployments.apps; "
        "what ClusterControllers declare is allowed anyway. Repeat it for more.",
        in_file=False,
    )
    egress: tuple[str, ...] = option(
        (),
        SeparateListType("PORT", _reached),
        "Let the server's own code reach this port, of any address or of a block of them: 5432 or 10.0.0.0/8:5432. "
        "Names, the cluster, HTTPS and the store are reached anyway. Repeat it for more.",
        in_file=False,
    )
    output: Path | None = option(
        None, PathType("DIR"), "Write a kustomize base there, instead of printing.", short="o", in_file=False
    )
    compare: bool = option(
        False,
        BooleanType(),
        "Compare with the cluster instead: print what is missing or differs. The exit code is then 1.",
        flag="check",
        in_file=False,
    )
    kubeconfig: Path | None = option(
        None,
        PathType(),
        "The kubeconfig for --check; by default KUBECONFIG, a pod's service account, or ~/.kube/config.",
        in_file=False,
    )
    context: str = option("", StringType("NAME"), "The context of the kubeconfig to use.", in_file=False)

    def check(self) -> Iterator[Problem]:
        if not self.namespace or dns1123_label(self.namespace):
            yield Problem("namespace", "must be the name of a namespace, such as shop")
        if not self.image or any(character.isspace() for character in self.image):
            yield Problem("image", "must be the name of an image, such as registry.example.com/shop:1.0")
        if self.name and dns1035_label(self.name):
            yield Problem("name", "must be lower-case letters, digits and dashes, and begin with a letter")
        if self.certificates not in CERTIFICATES:
            yield Problem("certificates", f"must be one of {', '.join(CERTIFICATES)}")
        if self.storage.startswith("sqlite:"):
            yield Problem("storage", "leave it out: SQLite on a volume is what there is then")
        try:
            parse_quantity(self.storage_size)
        except QuantityError:
            yield Problem("storage_size", "must be a quantity, such as 10Gi")
        if self.output is not None and self.compare:
            yield Problem("output", "writes, and `compare` writes nothing: leave one out")
