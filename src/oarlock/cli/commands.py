"""The commands of ``oarlock``. Each is loaded when it is named, so a server's start waits for none of the others.

Each is a few lines over what ``server`` and ``storage`` do. See also: ``server.command``, which tells errors.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence

from oarlock.server.about import VERSION
from oarlock.server.command import exit_code_of
from oarlock.server.options.commands import CommandGroup, LaterCommand

COMMANDS = CommandGroup(
    "oarlock",
    "Kubernetes-style API servers in Python.",
    (
        LaterCommand("new", "oarlock.cli.scaffolding_commands:NEW"),
        LaterCommand("add", "oarlock.cli.scaffolding_commands:ADD"),
        LaterCommand("update", "oarlock.cli.scaffolding_commands:UPDATE"),
        LaterCommand("serve", "oarlock.cli.serving_commands:SERVE"),
        LaterCommand("dev", "oarlock.cli.developing:DEV"),
        LaterCommand("up", "oarlock.cli.control_plane_commands:UP"),
        LaterCommand("run", "oarlock.cli.webhook_commands:RUN"),
        LaterCommand("webhooks", "oarlock.cli.webhook_commands:WEBHOOKS"),
        LaterCommand("envtest", "oarlock.cli.control_plane_commands:ENVTEST"),
        LaterCommand("config", "oarlock.cli.serving_commands:CONFIG"),
        LaterCommand("check", "oarlock.cli.declaring_commands:CHECK"),
        LaterCommand("crd", "oarlock.cli.declaring_commands:CRD"),
        LaterCommand("model", "oarlock.cli.modelling.command:MODEL"),
        LaterCommand("schema", "oarlock.cli.declaring_commands:SCHEMA"),
        LaterCommand("docs", "oarlock.cli.declaring_commands:DOCS"),
        LaterCommand("build", "oarlock.cli.building:BUILD"),
        LaterCommand("image", "oarlock.cli.image.command:IMAGE"),
        LaterCommand("manifests", "oarlock.cli.deploying.command:MANIFESTS"),
        LaterCommand("doctor", "oarlock.cli.doctor.command:DOCTOR"),
        LaterCommand("console", "oarlock.cli.serving_commands:CONSOLE"),
        CommandGroup(
            "storage",
            "Maintain a store, also while servers run on it.",
            (
                LaterCommand("check", "oarlock.cli.storage.maintenance:CHECK"),
                LaterCommand("compact", "oarlock.cli.storage.maintenance:COMPACT"),
                LaterCommand("migrate", "oarlock.cli.storage.maintenance:MIGRATE"),
                LaterCommand("backup", "oarlock.cli.storage.maintenance:BACKUP"),
                LaterCommand("restore", "oarlock.cli.storage.maintenance:RESTORE"),
                LaterCommand("copy", "oarlock.cli.storage.copying:COPY"),
                LaterCommand("export", "oarlock.cli.storage.transfer:EXPORT"),
                LaterCommand("import", "oarlock.cli.storage.transfer:IMPORT"),
                LaterCommand("stats", "oarlock.cli.storage.maintenance:STATS"),
            ),
        ),
        LaterCommand("completion", "oarlock.cli.completion:COMPLETION"),
    ),
    version=VERSION,
)
"""Every command there is, in the order of ``--help``."""


def load(words: Sequence[str]) -> None:
    """Load what the command needs that `words` name."""
    for command in COMMANDS.commands:
        if isinstance(command, LaterCommand) and words[:1] == [command.name]:
            command.load()


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line; ends the process, as SIGPIPE would where nobody reads what it prints any more."""
    try:
        code = exit_code_of(COMMANDS, argv)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 128 + signal.SIGPIPE
    sys.exit(code)
