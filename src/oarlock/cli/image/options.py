"""The options of ``oarlock image``. See also: `command`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from oarlock.cli.loading import ServerArgument
from oarlock.cli.quiet import QuietOptions
from oarlock.meta.dataclass import dataclass
from oarlock.server.options.option import Problem, option
from oarlock.server.options.types import BooleanType, PathType, StringListType, StringType


@dataclass(frozen=True, kw_only=True, repr=False)
class ImageOptions(ServerArgument, QuietOptions):
    """The options of ``oarlock image``."""

    title = ""

    output: Path | None = option(
        None, PathType(), "Write the image to this file, as a tar of an OCI image layout.", short="o", in_file=False
    )
    base: Path | None = option(
        None,
        PathType("PATH"),
        "The root file system with Python: a folder, a tar of one, or an OCI image layout in a folder or tar.",
        in_file=False,
    )
    tag: str = option("", StringType("NAME:TAG"), "The name of the image, as docker load shows it.", in_file=False)
    package: tuple[str, ...] = option(
        (),
        StringListType("NAMES"),
        "More installed packages to include with their requirements, such as asyncpg. oarlock is always included.",
        in_file=False,
    )
    dockerfile: bool = option(
        False, BooleanType(), "Print a Dockerfile for the same image, and write nothing.", in_file=False
    )

    def check(self) -> Iterator[Problem]:
        if self.dockerfile:
            return
        if self.output is None:
            yield Problem("output", "write the path of the image, such as image.tar")
        if self.base is None:
            yield Problem("base", "name a root file system with Python, such as one that docker export wrote")
