"""Writes docs/flags.md from the declarations of the options: ``python tools/flags_page.py``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from oarlock.cli.commands import COMMANDS
from oarlock.server.config import ServerConfig
from oarlock.server.options.commands import Command, CommandGroup, shown_default, shown_flag
from oarlock.server.options.file import API_VERSION, KIND
from oarlock.server.options.option import Option, options_of

PAGE = Path(__file__).resolve().parents[1] / "docs" / "flags.md"

HEAD = f"""\
# Flags and configuration

Every option is a flag of `oarlock serve`, a field of a configuration file, and a keyword of `ServerConfig` in Python. A
flag overrides the file, and the file overrides the default. Options that kube-apiserver has, too, have its names.
[Serving](serving.md) explains the most important ones. (`tools/flags_page.py` generates this page.)

- Write `--flag=value` or `--flag value`. A boolean is `--flag` or `--flag=false`.
- Items of a list are separated by commas. A repeated flag adds items.
- Durations are Go's (`90s`, `1m30s`). Sizes are Kubernetes' quantities (`3145728`, `256Mi`).

`--config FILE` names a configuration file in YAML or JSON. Its fields are the flags in camelCase:

```yaml
apiVersion: {API_VERSION}
kind: {KIND}
bindAddress: 0.0.0.0
requestTimeout: 1m30s
maxUnsentBytes: 512Mi
tlsSAN: [db.example.com, 10.0.0.7]
```

- A list is a YAML list, and `null` is the default.
- Relative paths are relative to the file; in the URL of `storage` they are relative to the working directory.
- Unknown and repeated fields and values of a wrong type are errors. All of them are reported at once.

`oarlock config` takes the same flags and prints the values in force, as such a file with comments. Passwords in URLs
are left out.

In Python, times are in seconds, sizes in bytes, lists are tuples and files are `Path`s. Invalid values raise a
`ConfigError`.
"""


def page() -> str:
    """The whole page."""
    return "\n".join([HEAD, *_server(), *_commands(COMMANDS, COMMANDS.name)]) + "\n"


def _server() -> Iterator[str]:
    group = ""
    for one in options_of(ServerConfig):
        if one.group != group:
            group = one.group
            yield from (*([""] if one.field != "bind_address" else []), f"## {group}", "")
            yield from ("| flag | file | Python | default | |", "|---|---|---|---|---|")
        yield f"| {_flag(one)} | `{one.file_field}` | `{one.field}` | {_default(one)} | {_cell(one.help)} |"


def _commands(command: Command | CommandGroup, path: str) -> Iterator[str]:
    """The flags of each command that aren't the server's."""
    if isinstance(command, CommandGroup):
        for inner in command.loaded():
            yield from _commands(inner, f"{path} {inner.name}")
        return
    above = options_of(ServerConfig) if issubclass(command.options, ServerConfig) else ()
    own = [one for one in options_of(command.options) if not one.is_argument and one not in above]
    if own:
        yield from ("", f"## `{path}`", "", "| flag | default | |", "|---|---|---|")
        yield from (f"| {_flag(one)} | {_default(one)} | {_cell(one.help)} |" for one in own)


def _flag(one: Option) -> str:
    return f"`{shown_flag(one)}`"


def _default(one: Option) -> str:
    default = shown_default(one)
    return f"`{default}`" if default else ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page())
