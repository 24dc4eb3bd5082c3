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
from oarlock.server.options.commands import Command, CommandGroup, LaterCommand


def _update() -> Command:
    from oarlock.cli.scaffolding_commands import UPDATE  # noqa: PLC0415 (loaded when it is named)

    return UPDATE


def _serve() -> Command:
    from oarlock.cli.serving_commands import SERVE  # noqa: PLC0415 (loaded when it is named)

    return SERVE


def _dev() -> Command:
    from oarlock.cli.serving_commands import DEV  # noqa: PLC0415 (loaded when it is named)

    return DEV


def _up() -> Command:
    from oarlock.cli.control_plane_commands import UP  # noqa: PLC0415 (loaded when it is named)

    return UP


def _run() -> Command:
    from oarlock.cli.deploying_commands import RUN  # noqa: PLC0415 (loaded when it is named)

    return RUN


def _webhooks() -> Command:
    from oarlock.cli.webhook_commands import WEBHOOKS  # noqa: PLC0415 (loaded when it is named)

    return WEBHOOKS


def _envtest() -> Command:
    from oarlock.cli.control_plane_commands import ENVTEST  # noqa: PLC0415 (loaded when it is named)

    return ENVTEST


def _config() -> Command:
    from oarlock.cli.serving_commands import CONFIG  # noqa: PLC0415 (loaded when it is named)

    return CONFIG


def _check() -> Command:
    from oarlock.cli.declaring_commands import CHECK  # noqa: PLC0415 (loaded when it is named)

    return CHECK


def _crd() -> Command:
    from oarlock.cli.declaring_commands import CRD  # noqa: PLC0415 (loaded when it is named)

    return CRD


def _model() -> Command:
    from oarlock.cli.declaring_commands import MODEL  # noqa: PLC0415 (loaded when it is named)

    return MODEL


def _schema() -> Command:
    from oarlock.cli.declaring_commands import SCHEMA  # noqa: PLC0415 (loaded when it is named)

    return SCHEMA


def _docs() -> Command:
    from oarlock.cli.declaring_commands import DOCS  # noqa: PLC0415 (loaded when it is named)

    return DOCS


def _build() -> CommandGroup:
    from oarlock.cli.building.commands import BUILD  # noqa: PLC0415 (loaded when it is named)

    return BUILD


def _image() -> Command:
    from oarlock.cli.deploying_commands import IMAGE  # noqa: PLC0415 (loaded when it is named)

    return IMAGE


def _manifests() -> Command:
    from oarlock.cli.deploying_commands import MANIFESTS  # noqa: PLC0415 (loaded when it is named)

    return MANIFESTS


def _doctor() -> Command:
    from oarlock.cli.deploying_commands import DOCTOR  # noqa: PLC0415 (loaded when it is named)

    return DOCTOR


def _console() -> Command:
    from oarlock.cli.serving_commands import CONSOLE  # noqa: PLC0415 (loaded when it is named)

    return CONSOLE


def _new() -> Command:
    from oarlock.cli.scaffolding_commands import NEW  # noqa: PLC0415 (loaded when it is named)

    return NEW


def _add() -> CommandGroup:
    from oarlock.cli.scaffolding_commands import ADD  # noqa: PLC0415 (loaded when it is named)

    return ADD


def _storage() -> CommandGroup:
    from oarlock.cli.storage.commands import STORAGE  # noqa: PLC0415 (loaded when it is named)

    return STORAGE


def _completion() -> Command:
    from oarlock.cli.completion import CompletionOptions, completion  # noqa: PLC0415 (loaded when it is named)

    def run(options: CompletionOptions) -> None:
        """Print a script with which a shell completes commands, flags, files and resources of a module.

        For bash: source <(oarlock completion bash). For zsh: oarlock completion zsh > a file _oarlock on $fpath. For
        fish: oarlock completion fish > ~/.config/fish/completions/oarlock.fish.
        """
        for line in completion(COMMANDS, options.shell, os.environ.get("OARLOCK_WORDS", "")):
            print(line)

    return Command("completion", CompletionOptions, run)


COMMANDS = CommandGroup(
    "oarlock",
    "Kubernetes-style API servers in Python.",
    (
        LaterCommand("new", _new),
        LaterCommand("add", _add),
        LaterCommand("update", _update),
        LaterCommand("serve", _serve),
        LaterCommand("dev", _dev),
        LaterCommand("up", _up),
        LaterCommand("run", _run),
        LaterCommand("webhooks", _webhooks),
        LaterCommand("envtest", _envtest),
        LaterCommand("config", _config),
        LaterCommand("check", _check),
        LaterCommand("crd", _crd),
        LaterCommand("model", _model),
        LaterCommand("schema", _schema),
        LaterCommand("docs", _docs),
        LaterCommand("build", _build),
        LaterCommand("image", _image),
        LaterCommand("manifests", _manifests),
        LaterCommand("doctor", _doctor),
        LaterCommand("console", _console),
        LaterCommand("storage", _storage),
        LaterCommand("completion", _completion),
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
