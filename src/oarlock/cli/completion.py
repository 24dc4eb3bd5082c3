"""``oarlock completion SHELL``: a script with which a shell completes commands, flags, files and kinds.

The script asks ``oarlock completion words`` what may follow, with the words so far in ``OARLOCK_WORDS``.
See also: `commands`, which are completed.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from oarlock.cli.commands import COMMANDS
from oarlock.cli.loading import load_declared, server_of_project
from oarlock.meta.dataclass import dataclass
from oarlock.registry.served import Served
from oarlock.schema.types.declaring import DeclarationError
from oarlock.server.command import CommandError
from oarlock.server.options.commands import Command, CommandGroup, LaterCommand
from oarlock.server.options.flags import flag_of
from oarlock.server.options.option import Option, OptionGroup, argument, options_of
from oarlock.server.options.types import BooleanType, PathType, StringListType, StringType, WordType

FILES = ":files"
"""What stands for the names of files, which the shell knows best."""

SHELLS = ("bash", "zsh", "fish")

WORDS = "words"
"""In place of a shell: scripts ask what may follow."""

_BASH = """\
_oarlock() {
  local word words
  COMPREPLY=()
  words="$(printf '%s\\n' "${COMP_WORDS[@]:1:COMP_CWORD}" .)"
  while IFS= read -r word; do
    if [ "$word" = ":files" ]; then
      compopt -o filenames 2>/dev/null
      while IFS= read -r word; do COMPREPLY+=("$word"); done < <(compgen -f -- "${COMP_WORDS[COMP_CWORD]#=}")
    elif [ -n "$word" ]; then
      COMPREPLY+=("$word")
    fi
  done < <(OARLOCK_WORDS="$words" "${COMP_WORDS[0]}" completion words 2>/dev/null)
  [[ ${#COMPREPLY[@]} = 1 && ${COMPREPLY[0]} = *= ]] && compopt -o nospace 2>/dev/null
  return 0
}
complete -F _oarlock oarlock
"""
_ZSH = """\
#compdef oarlock
_oarlock() {
  local -a found
  found=("${(@f)$(OARLOCK_WORDS="$(printf '%s\\n' "${(@)words[2,CURRENT]}" .)" oarlock completion words 2>/dev/null)}")
  (( ${found[(Ie):files]} )) && _files
  compadd -S '' -- ${(M)found:#*=}
  compadd -- ${${found:#*=}:#:files}
}
compdef _oarlock oarlock
"""
_FISH = """\
function __oarlock
  set -lx OARLOCK_WORDS (printf '%s\\n' (commandline -opc)[2..-1] (commandline -ct) . | string collect)
  for word in (oarlock completion words 2>/dev/null)
    if test "$word" = ":files"
      __fish_complete_path (commandline -ct)
    else
      echo $word
    end
  end
end
complete -c oarlock -f -a '(__oarlock)'
"""
_SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


@dataclass(frozen=True, kw_only=True, repr=False)
class CompletionOptions(OptionGroup):
    """The options of ``oarlock completion``."""

    title = ""

    shell: str = argument(
        WordType("SHELL", *SHELLS, WORDS),
        "Print the script for bash, zsh or fish. With words, which the scripts call, what may follow OARLOCK_WORDS.",
    )


def candidates(commands: CommandGroup, words: Sequence[str]) -> list[str]:
    """What the last of `words` may become, and `FILES` for the names of files."""
    *before, begun = [word for word in words[:-1] if word != "="] + [words[-1].lstrip("=")] if words else [""]
    return sorted({word for word in _all(commands, before, begun) if word == FILES or word.startswith(begun)})


def _all(group: CommandGroup, before: Sequence[str], begun: str) -> Iterator[str]:
    """Everything that may stand behind `before`."""
    if not before:
        yield from (inner.name for inner in group.commands)
        yield from ("--help", *(["--version"] if group.version else []))
        return
    for inner in group.commands:
        if inner.name == before[0]:
            command = inner.load() if isinstance(inner, LaterCommand) else inner
            if isinstance(command, CommandGroup):
                yield from _all(command, before[1:], begun)
            else:
                yield from _of_command(command, before[1:], begun)


def _of_command(command: Command, before: Sequence[str], begun: str) -> Iterator[str]:
    options = options_of(command.options)
    flags = {flag_of(option): option for option in options if not option.is_argument}
    name, equals, _ = begun.partition("=")
    if equals and name in flags:
        yield from (value if value == FILES else f"{name}={value}" for value in _values(flags[name]))
        return
    last = flags.get(before[-1]) if before else None
    if last is not None and not isinstance(last.type, BooleanType):
        yield from _values(last)
        return
    if begun.startswith("-"):
        yield from (flag if isinstance(option.type, BooleanType) else f"{flag}=" for flag, option in flags.items())
        yield "--help"
        return
    given = _arguments(before, flags)
    arguments = [option for option in options if option.is_argument]
    if len(given) < len(arguments):
        yield from _of_argument(arguments[len(given)], given)


def _arguments(words: Sequence[str], flags: dict[str, Option]) -> list[str]:
    """The words that are neither flags nor their values."""
    found, takes_value = [], False
    for word in words:
        if takes_value:
            takes_value = False
        elif word.startswith("-"):
            option = flags.get(word)
            takes_value = option is not None and not isinstance(option.type, BooleanType)
        else:
            found.append(word)
    return found


def _values(option: Option) -> Iterator[str]:
    """The values of a flag, as far as they are known."""
    kind = option.type
    if isinstance(kind, WordType):
        yield from kind.words
    elif isinstance(kind, BooleanType):
        yield from ("true", "false")
    elif not isinstance(kind, StringType | StringListType) or isinstance(kind, PathType) or "FILE" in kind.unit:
        yield FILES


def _of_argument(option: Option, given: Sequence[str]) -> Iterator[str]:
    if isinstance(option.type, WordType):
        yield from option.type.words
    elif option.type.unit == "RESOURCE.GROUP" and given:
        yield from (str(served.definition.group_resource) for served in _declared(given[0]))
    elif option.type.unit == "KIND":
        yield from (served.definition.names.kind for served in _declared(server_of_project(Path.cwd())))
    elif "FILE" in option.type.unit or isinstance(option.type, PathType):
        yield FILES


def _declared(where: str) -> Sequence[Served]:
    """What a module or a file declares; nothing if it can't be loaded, or there is none."""
    before = logging.root.manager.disable
    logging.disable()  # a shell would show it amid the line that is being typed
    try:
        with contextlib.suppress(CommandError, DeclarationError, OSError):
            return load_declared(where) if where else []
    finally:
        logging.disable(before)
    return []


def completion(commands: CommandGroup, shell: str, words: str) -> list[str]:
    """The lines to print: a script, or what may follow `words`, one a line and a last one."""
    return candidates(commands, words.split("\n")[:-1]) if shell == WORDS else _SCRIPTS[shell].splitlines()


def _completion(options: CompletionOptions) -> None:
    """Print a script with which a shell completes commands, flags, files and resources of a module.

    For bash: source <(oarlock completion bash). For zsh: oarlock completion zsh > a file _oarlock on $fpath. For
    fish: oarlock completion fish > ~/.config/fish/completions/oarlock.fish.
    """
    for line in completion(COMMANDS, options.shell, os.environ.get("OARLOCK_WORDS", "")):
        print(line)


COMPLETION = Command("completion", CompletionOptions, _completion)
