"""The commands below ``oarlock build``: wheel, executable, and image, manifests and docs as they are by themselves."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from oarlock.cli.building.options import ExecutableOptions, WheelOptions
from oarlock.cli.declaring_commands import DOCS
from oarlock.cli.deploying_commands import IMAGE, MANIFESTS
from oarlock.cli.loading import server_of_project
from oarlock.server.command import CommandError
from oarlock.server.options.commands import Command, CommandGroup


def _wheel(options: WheelOptions) -> int:
    """Build the wheel of the project, with pip."""
    server = server_of_project(Path.cwd())
    if not server:
        raise CommandError("this folder isn't in a project of oarlock new: change into one")
    root = Path(server).resolve().parents[2]
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", str(options.output), str(root)]
    return subprocess.run(command, check=False).returncode


def _executable(options: ExecutableOptions) -> int:
    """Write the server as one executable file. It only needs the interpreter that it names.

    The packages are copied from this Python; nothing is downloaded. The file unpacks itself once, below ~/.cache, and
    takes the flags of oarlock serve. The same files produce the same executable.
    """
    from oarlock.cli.building import executable  # noqa: PLC0415 (no other command needs it)

    return executable.write(options)


BUILD = CommandGroup(
    "build",
    "Build what a server is shipped as.",
    (
        Command("wheel", WheelOptions, _wheel),
        Command("executable", ExecutableOptions, _executable),
        IMAGE,
        MANIFESTS,
        DOCS,
    ),
)
