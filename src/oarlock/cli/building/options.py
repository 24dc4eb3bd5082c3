"""The options of the commands below ``oarlock build``. See also: `commands`."""

from __future__ import annotations

from pathlib import Path

from oarlock.cli.loading import ServerArgument
from oarlock.cli.quiet import QuietOptions
from oarlock.meta.dataclass import dataclass
from oarlock.server.options.option import option
from oarlock.server.options.types import PathType, StringListType, StringType


@dataclass(frozen=True, kw_only=True, repr=False)
class WheelOptions(QuietOptions):
    """The options of ``oarlock build wheel``."""

    title = ""

    output: Path = option(Path("dist"), PathType("DIR"), "Write the wheel to this folder.", short="o", in_file=False)


@dataclass(frozen=True, kw_only=True, repr=False)
class ExecutableOptions(ServerArgument, QuietOptions):
    """The options of ``oarlock build executable``."""

    title = ""

    output: Path | None = option(
        None, PathType(), "Write the executable to this file. By default dist/NAME.pyz.", short="o", in_file=False
    )
    python: str = option(
        "",
        StringType("PROGRAM"),
        "The interpreter that runs the executable: a path, or a name on PATH. By default python3.X of this "
        "Python's version.",
        in_file=False,
    )
    package: tuple[str, ...] = option(
        (),
        StringListType("NAMES"),
        "More installed packages to include with their requirements, such as asyncpg. oarlock is always included.",
        in_file=False,
    )
