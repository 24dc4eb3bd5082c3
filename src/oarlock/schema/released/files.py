"""Where the types of Kubernetes' releases are: `release_files`.

An installed oarlock has those of one release beside this file; the package ``kubernetes-validate`` carries them as a
JSON schema file a release.
Must not know: what is made of them. See also: `published`.
"""

from __future__ import annotations

import gzip
import importlib.util
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

__all__ = ["read_types", "release_files"]

_PACKAGE = "kubernetes_validate"
_FOLDER = re.compile(r"v(\d+)\.(\d+)\.\d+-local")
_FILE = re.compile(r"v(\d+)\.(\d+)\.json\.gz")
_OWN_PLACE = Path(__file__).parent


class _Document(msgspec.Struct):
    defs: dict[str, msgspec.Raw] = msgspec.field(name="$defs")


def release_files() -> Iterator[tuple[tuple[int, ...], Path]]:
    """By release, as numbers, the file of its types: the one that came with oarlock, and those of the package."""
    for file in _OWN_PLACE.glob("v*.json.gz"):
        named = _FILE.fullmatch(file.name)
        if named is not None:
            yield (int(named[1]), int(named[2])), file
    spec = importlib.util.find_spec(_PACKAGE)
    for place in spec.submodule_search_locations or () if spec is not None else ():
        for folder in (Path(place) / "kubernetes-json-schema").glob("v*-local"):
            named = _FOLDER.fullmatch(folder.name)
            if named is not None and (folder / "_definitions.json").is_file():
                yield (int(named[1]), int(named[2])), folder / "_definitions.json"


def read_types(file: Path) -> Mapping[str, msgspec.Raw]:
    """The types in a file by name, each as JSON that isn't decoded yet."""
    data = file.read_bytes()
    return msgspec.json.decode(gzip.decompress(data) if file.suffix == ".gz" else data, type=_Document).defs
