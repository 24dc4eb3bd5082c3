"""The installed packages that a server needs (oarlock, what it requires, what the user names), compiled.

They are taken from where this Python has them; nothing is downloaded. Source: PEP 376, PEP 508, PEP 552, PEP 660.
"""

from __future__ import annotations

import importlib.util
import json
import marshal
import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from urllib.parse import unquote

from oarlock.net.url import parse_url
from oarlock.server.command import CommandError

try:
    from packaging.requirements import InvalidRequirement, Requirement
    from packaging.utils import canonicalize_name
except ImportError:
    raise CommandError("packaging isn't installed, which images need: pip install 'oarlock[image]'") from None


def with_requirements(names: Iterable[str]) -> list[Distribution]:
    """The packages `names` (PEP 508, extras as well), and all that they require, by name. Raises `CommandError`."""
    found: dict[str, Distribution] = {}
    extras: dict[str, set[str]] = {}
    left = [_requirement(name) for name in names]
    while left:
        wanted = left.pop()
        key = canonicalize_name(wanted.name)
        known = extras.setdefault(key, set())
        if key in found and wanted.extras <= known:
            continue
        known |= wanted.extras
        try:
            found[key] = distribution(wanted.name)
        except PackageNotFoundError:
            raise CommandError(f"{wanted.name} isn't installed here: install it first") from None
        for text in found[key].requires or ():
            required = Requirement(text)
            environments: list[dict[str, str]] = [{"extra": extra} for extra in sorted(known)] or [{"extra": ""}]
            if required.marker is None or any(required.marker.evaluate(environment) for environment in environments):
                left.append(required)
    return [found[key] for key in sorted(found)]


def _requirement(text: str) -> Requirement:
    try:
        return Requirement(text)
    except InvalidRequirement:
        raise CommandError(f"--package={text}: write the name of a package, such as asyncpg") from None


def files_of(package: Distribution) -> Iterator[tuple[str, Path]]:
    """The files of a package, by the name they have below the folder of packages. Scripts aren't among them."""
    editable = _editable_folder(package)
    if editable is not None:
        yield from _sources(editable)
    for file in sorted(package.files or (), key=str):
        name = file.as_posix()
        path = Path(str(package.locate_file(file)))
        if ".." in file.parts or "__pycache__" in file.parts or not path.is_file():
            continue
        if editable is None or ".dist-info/" in name:
            yield name, path


def _editable_folder(package: Distribution) -> Path | None:
    """The source folder of a package that is installed as a link to it; of oarlock, the one that runs now."""
    text = package.read_text("direct_url.json")
    about = json.loads(text) if text else {}
    if not about.get("dir_info", {}).get("editable"):
        return None
    if canonicalize_name(package.metadata["Name"]) == "oarlock":
        return Path(__file__).parents[3]
    folder = Path(unquote(parse_url(about["url"]).path))
    return folder / "src" if (folder / "src").is_dir() else folder


def _sources(folder: Path) -> Iterator[tuple[str, Path]]:
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        hidden = any(part.startswith(".") or part == "__pycache__" or part.endswith(".egg-info") for part in parts)
        if path.is_file() and not hidden:
            yield "/".join(parts), path


_UNCHECKED_HASH = (1).to_bytes(4, "little")
_WITHOUT_REFERENCES = 2
"""Later versions of the format depend on which constants happen to be the same object."""


def compiled(source: bytes, name: str) -> bytes | None:
    """The compiled file for `source`, which tracebacks call `name`; None if it can't be compiled, as some templates."""
    try:
        code = compile(source, name, "exec", dont_inherit=True, optimize=0)
    except (SyntaxError, ValueError):
        return None
    head = importlib.util.MAGIC_NUMBER + _UNCHECKED_HASH + importlib.util.source_hash(source)
    try:
        return head + marshal.dumps(code, _WITHOUT_REFERENCES)
    except ValueError:  # Python 3.14 makes constants of slices, for which this format has no form
        return None


def compiled_name(name: str) -> str:
    """Where Python looks for the compiled file of ``folder/module.py``."""
    folder, slash, file = name.rpartition("/")
    return f"{folder}{slash}__pycache__/{file.removesuffix('.py')}.{sys.implementation.cache_tag}.pyc"
