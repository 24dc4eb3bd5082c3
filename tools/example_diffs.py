"""Examples that are what ``oarlock new`` and ``oarlock add`` make, plus a difference.

    python tools/example_diffs.py             lists the files that are otherwise than the commands make them
    python tools/example_diffs.py --renew     writes the files again that aren't listed, as the templates have them now
    python tools/example_diffs.py --check     says where a list isn't right
    python tools/example_diffs.py --show NAME prints the difference as a patch

`examples/NAME/scaffold.toml` has the commands, and the files that were added, changed and removed afterwards. All other
files are as the commands make them.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import fnmatch
import io
import json
import shlex
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from oarlock.cli import main as oarlock

__all__ = ["commands_of", "mistakes", "scaffolded", "scaffolds"]

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
FILE = "scaffold.toml"
OF_THIS_MACHINE = ("local.mk",)

Files = Mapping[str, str]


@dataclass(frozen=True)
class Difference:
    """The files in which an example isn't what its commands make."""

    added: list[str]
    changed: list[str]
    removed: list[str]

    @classmethod
    def between(cls, made: Files, own: Files) -> Difference:
        changed = [path for path in sorted(made.keys() & own.keys()) if made[path] != own[path]]
        return cls(sorted(own.keys() - made.keys()), changed, sorted(made.keys() - own.keys()))

    def apply(self, made: Files, own: Files) -> dict[str, str]:
        """What is made, with those files as the example has them."""
        kept = {path: text for path, text in made.items() if path not in self.removed}
        return {**kept, **{path: own[path] for path in (*self.added, *self.changed) if path in own}}

    def written(self) -> str:
        """The lines of `scaffold.toml`."""
        text = ""
        for name in ("added", "changed", "removed"):
            paths = "".join(f"  {json.dumps(path)},\n" for path in getattr(self, name))
            text += f"{name} = [\n{paths}]\n" if paths else f"{name} = []\n"
        return text


def scaffolds() -> list[Path]:
    """The examples that the scaffold makes."""
    return sorted(file.parent for file in EXAMPLES.glob(f"*/{FILE}"))


def commands_of(example: Path) -> list[str]:
    commands: list[str] = tomllib.loads((example / FILE).read_text())["commands"]
    return commands


def kept_difference(example: Path) -> Difference:
    """The difference as `scaffold.toml` lists it."""
    kept = tomllib.loads((example / FILE).read_text())
    return Difference(kept.get("added", []), kept.get("changed", []), kept.get("removed", []))


def scaffolded(commands: list[str], folder: Path) -> dict[str, str]:
    """The files of the project that the commands make in an empty folder. The first one is ``oarlock new NAME``."""
    root = folder
    for command in commands:
        words = shlex.split(command)
        with contextlib.chdir(root), contextlib.redirect_stdout(io.StringIO()) as said:
            try:
                oarlock(words[1:])
            except SystemExit as end:
                if end.code:
                    raise RuntimeError(f"{command}: {said.getvalue()}{end}") from None
        if root == folder:
            root = folder / words[2]
    return files_of(root)


def files_of(root: Path) -> dict[str, str]:
    """The texts of a project's files, without those that its .gitignore names and what is about the scaffold itself."""
    ignored = [line.strip("/") for line in (root / ".gitignore").read_text().splitlines() if line[:1] not in ("#", "")]
    found = {}
    for path in sorted(root.rglob("*")):
        parts = path.relative_to(root).parts
        if any(fnmatch.fnmatch(part, pattern) for part in parts for pattern in ignored) or not path.is_file():
            continue
        found["/".join(parts)] = path.read_text()
    return {path: text for path, text in found.items() if path not in (FILE, *OF_THIS_MACHINE)}


def mistakes(example: Path, made: Files) -> list[str]:
    """The files in which an example isn't what is made with its difference applied, and what is listed in vain."""
    own, listed = files_of(example), kept_difference(example)
    applied = listed.apply(made, own)
    wrong = [
        f"{path} is otherwise than the scaffold makes it, and isn't listed"
        for path in sorted(own.keys() | applied.keys())
        if own.get(path) != applied.get(path)
    ]
    if not wrong and listed != Difference.between(made, own):
        wrong = [f"{FILE} lists files that are as the scaffold makes them"]
    return wrong


def patch(made: Files, own: Files) -> Iterator[str]:
    """The difference as a patch."""
    for path in sorted(made.keys() | own.keys()):
        before, after = made.get(path, ""), own.get(path, "")
        old, new = f"a/{path}" if path in made else "/dev/null", f"b/{path}" if path in own else "/dev/null"
        yield from difflib.unified_diff(before.splitlines(True), after.splitlines(True), old, new)


def renew(example: Path, made: Files) -> None:
    """Write the files of an example again that are as they were made."""
    kept = kept_difference(example)
    for path, text in made.items():
        if path not in (*kept.changed, *kept.removed):
            (example / path).parent.mkdir(parents=True, exist_ok=True)
            (example / path).write_text(text)


def list_difference(example: Path, made: Files) -> None:
    """Write into `scaffold.toml` which files are otherwise."""
    commands = "".join(f"  {json.dumps(command)},\n" for command in commands_of(example))
    difference = Difference.between(made, files_of(example))
    (example / FILE).write_text(
        f"commands = [\n{commands}]\n\n"
        f"# written by tools/example_diffs.py: all other files are as the commands make them\n{difference.written()}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description="Examples that are what the scaffold makes, plus a difference.")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--renew", action="store_true", help="write the files again that aren't listed")
    how.add_argument("--check", action="store_true", help="change nothing; exit with 1 if a list isn't right")
    how.add_argument("--show", metavar="NAME", help="print the difference of an example as a patch")
    options = parser.parse_args()
    wrong = False
    for example in scaffolds():
        if options.show not in (None, example.name):
            continue
        with tempfile.TemporaryDirectory() as folder:
            made = scaffolded(commands_of(example), Path(folder))
        if options.show:
            sys.stdout.writelines(patch(made, files_of(example)))
        elif options.check:
            for line in mistakes(example, made):
                print(f"{example.name}: {line}")
                wrong = True
        else:
            if options.renew:
                renew(example, made)
            list_difference(example, made)
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
