"""The options of ``oarlock new`` and ``oarlock add``. See also: `scaffolding`, which carries the commands out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from oarlock.meta.dataclass import dataclass
from oarlock.server.options.option import OptionGroup, Problem, argument, option
from oarlock.server.options.types import BooleanType, PathType, SeparateListType, StringListType, StringType, WordType

HOMES = ("extension", "control_plane", "operator")


@dataclass(frozen=True, kw_only=True, repr=False)
class AdditionOptions(OptionGroup):
    """The options of every change of a project."""

    title = ""

    dry_run: bool = option(False, BooleanType(), "List the files that would be written, and write none.", in_file=False)
    diff: bool = option(False, BooleanType(), "Print the changes as a diff, and write nothing.", in_file=False)


@dataclass(frozen=True, kw_only=True, repr=False)
class NewOptions(AdditionOptions):
    """The options of ``oarlock new``."""

    title = ""

    name: str = argument(StringType("NAME"), "The name of the project and of its folder.", default="")
    group: str = option(
        "", StringType("GROUP"), "The API group: a domain of yours, such as demo.example.com.", in_file=False
    )
    kind: str = option(
        "", StringType("KIND"), "A first kind, with a status and a controller, such as Foo.", in_file=False
    )
    version: str = option("v1", StringType("VERSION"), "The version of the first kind.", in_file=False)
    extension: bool = option(
        False, BooleanType(), "Make a server behind a cluster's API server. This is the default.", in_file=False
    )
    control_plane: bool = option(
        False,
        BooleanType(),
        "Make a control plane of its own, with namespaces, roles and custom resources.",
        in_file=False,
    )
    operator: bool = option(
        False, BooleanType(), "Make controllers of kinds that a cluster stores as custom resources.", in_file=False
    )
    folder: Path | None = option(
        None, PathType("DIR"), "The parent of the project's folder. By default the working directory.",
        in_file=False,
    )  # fmt: skip

    def check(self) -> Iterator[Problem]:
        chosen = [name for name in HOMES if getattr(self, name)]
        if len(chosen) > 1:
            yield Problem(chosen[1], f"choose it or `{chosen[0]}`")

    @property
    def home(self) -> str:
        """What the project is."""
        return next((name.replace("_", "-") for name in HOMES if getattr(self, name)), "extension")


@dataclass(frozen=True, kw_only=True, repr=False)
class KindOptions(AdditionOptions):
    """The options of a command about a kind of the project."""

    title = ""

    kind: str = argument(StringType("KIND"), "The kind, such as Foo.", default="")


@dataclass(frozen=True, kw_only=True, repr=False)
class AdmissionOptions(AdditionOptions):
    """The options of ``oarlock add admission``."""

    title = ""

    kind: str = argument(StringType("KIND"), "The kind that the plugin handles. By default every kind.", default="")


@dataclass(frozen=True, kw_only=True, repr=False)
class VirtualOptions(KindOptions):
    """The options of ``oarlock add virtual``."""

    title = ""

    version: str = option("", StringType("VERSION"), "Its version, such as v1 or v1beta1.", in_file=False)
    cluster_scoped: bool = option(False, BooleanType(), "The objects are cluster-scoped.", in_file=False)
    short_name: tuple[str, ...] = option(
        (), StringListType("NAMES"), "Abbreviations for kubectl, such as fo.", in_file=False
    )
    plural: str = option("", StringType("NAME"), "The plural, if it isn't the kind with an s.", in_file=False)
    field: tuple[str, ...] = option(
        (),
        SeparateListType("NAME:TYPE"),
        "A field of the spec, such as size:int=3, extras:list[str], colour:red|green, until:datetime?. Repeat it "
        "for more.",
        in_file=False,
    )


@dataclass(frozen=True, kw_only=True, repr=False)
class ResourceOptions(VirtualOptions):
    """The options of ``oarlock add resource``."""

    title = ""

    status: bool = option(
        False, BooleanType(), "The kind has a status with conditions, and /status is served.", in_file=False
    )
    scale: bool = option(False, BooleanType(), "The kind has replicas, and /scale is served.", in_file=False)


@dataclass(frozen=True, kw_only=True, repr=False)
class KindVersionOptions(KindOptions):
    """The options of ``oarlock add version``."""

    title = ""

    version: str = argument(StringType("VERSION"), "The version to add, such as v2.", default="", also="version")


@dataclass(frozen=True, kw_only=True, repr=False)
class SubresourceOptions(KindOptions):
    """The options of ``oarlock add subresource``."""

    title = ""

    name: str = argument(StringType("NAME"), "The subresource, such as preview.", default="")
    of: str = option(
        "action",
        WordType("KIND", "action", "stream", "connect"),
        "The sort of subresource: action answers a request, stream streams its answer, connect takes over the "
        "connection.",
        flag="kind",
        in_file=False,
    )
