"""Brings a project up to date with the templates of another oarlock, and leaves alone what its owner changed.

A file that ``oarlock new`` wrote is compared with what it wrote. Lines that only the templates changed are changed,
lines that only the owner changed stay; where both did, the owner's stay and the others are told.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Sequence

from oarlock.meta.dataclass import dataclass
from oarlock.scaffold.changes import Changes
from oarlock.scaffold.names import ScaffoldError
from oarlock.scaffold.project import MADE, Project, made_by, project_files


@dataclass(frozen=True, slots=True)
class LeftAlone:
    """Lines of a template that a file doesn't have, because its owner changed the same place."""

    path: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Edit:
    """`lines` in place of the lines of a text from `start` to `end`."""

    start: int
    end: int
    lines: tuple[str, ...]

    def touches(self, other: _Edit) -> bool:
        return self.start <= other.end and other.start <= self.end


def update(project: Project, changes: Changes, oarlock: str) -> list[LeftAlone]:
    """Put what the templates of this version changed into `changes`. Raises `ScaffoldError`."""
    if not changes.exists(MADE):
        raise ScaffoldError(f"{MADE} isn't there, which says what oarlock new wrote: nothing can be compared")
    try:
        before: dict[str, str] = json.loads(changes.text(MADE))["files"]
    except (ValueError, KeyError, TypeError):
        raise ScaffoldError(f"{MADE} isn't what oarlock new wrote: nothing can be compared") from None
    after = project_files(project, oarlock)
    left: list[LeftAlone] = []
    for path, text in after.items():
        if path not in before:
            changes.create_if_missing(path, text)
        elif changes.exists(path) and text != before[path]:
            merged, refused = three_way(before[path], changes.text(path), text)
            changes.edit(path, lambda _, merged=merged: merged)  # type: ignore[misc]
            if refused:
                left.append(LeftAlone(path, tuple(refused)))
    changes.edit(MADE, lambda _: made_by(oarlock, after))
    return left


def three_way(base: str, own: str, new: str) -> tuple[str, list[str]]:
    """`own` with the changes from `base` to `new`, where it has none of its own; and the lines it didn't take."""
    lines = base.splitlines(keepends=True)
    kept = list(_edits(lines, own.splitlines(keepends=True)))
    taken, refused = list(kept), []
    for edit in _edits(lines, new.splitlines(keepends=True)):
        if edit in kept:
            continue
        if any(edit.touches(other) for other in kept):
            refused += [line.rstrip("\n") for line in edit.lines]
        else:
            taken.append(edit)
    for edit in sorted(taken, key=lambda edit: (edit.start, edit.end), reverse=True):
        lines[edit.start : edit.end] = edit.lines
    return "".join(lines), refused


def _edits(before: Sequence[str], after: Sequence[str]) -> Iterator[_Edit]:
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    for tag, start, end, first, last in matcher.get_opcodes():
        if tag != "equal":
            yield _Edit(start, end, tuple(after[first:last]))
