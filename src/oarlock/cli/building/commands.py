"""The commands below ``oarlock build``: wheel, executable, and image, manifests and docs as they are by themselves."""

from __future__ import annotations

import sys
from pathlib import Path

from oarlock.cli.building.options import ExecutableOptions, WheelOptions
from oarlock.cli.declaring_commands import DOCS
from oarlock.cli.deploying_commands import IMAGE, MANIFESTS
from oarlock.cli.loading import server_of_project
from oarlock.cli.progress import run_shown, shown_progress
from oarlock.server.command import CommandError
from oarlock.server.options.commands import Command, CommandGroup


def _wheel(options: WheelOptions) -> int:
    """Build the wheel of the project, with pip."""
    server = server_of_project(Path.cwd())
    if not server:
        raise CommandError("this folder isn't in a project of oarlock new: change into one")
    root = Path(server).resolve().parents[2]
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", str(options.output), str(root)]
    with shown_progress(quiet=options.quiet) as line:
        code = run_shown([*command, "--disable-pip-version-check", "--no-color"], line)
    if code == 0:
        built = max(options.output.glob("*.whl"), key=lambda file: file.stat().st_mtime)
        print(f"{built}: {built.stat().st_size / 1e3:.1f} kB")
    return code


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
