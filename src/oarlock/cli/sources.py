"""Where the sources of a server are, and what ``oarlock serve`` is given when they are somewhere else.

See also: `loading`, which imports them.
"""

from __future__ import annotations

import os
from pathlib import Path

from oarlock.meta.dataclass import dataclass

__all__ = ["ServerSources", "sources_of"]


@dataclass(frozen=True, slots=True)
class ServerSources:
    """`argument` names the server from `folder`, and `part` is what is its own of that: all of it, or one package."""

    folder: Path
    argument: str
    part: Path


def sources_of(server: str) -> ServerSources:
    """Where the server at ``MODULE:ATTRIBUTE`` or ``FILE.py`` is. Nothing is imported."""
    name, colon, attribute = server.rpartition(":") if ":" in server else (server, "", "")
    if not (name.endswith(".py") or os.sep in name):
        return ServerSources(Path.cwd(), server, Path.cwd())
    file = Path(name).resolve()
    folder = part = file.parent
    while (folder / "__init__.py").is_file():
        folder, part = folder.parent, folder
    return ServerSources(folder, f"{file.relative_to(folder).as_posix()}{colon}{attribute}", part)
