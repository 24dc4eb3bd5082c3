"""`Base`: the lowest layers of an image, which have Python: a root file system, or another image.

See also: `layout`.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import re
import sys
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import field
from pathlib import Path

from oarlock.cli.image.layout import ImageLayer, LayerWriter, hashed_copy
from oarlock.meta.dataclass import dataclass
from oarlock.meta.json_trees import Tree
from oarlock.server.command import CommandError

LAYOUT = "oci-layout"
MOST_DOCUMENT_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Base:
    """`python` is the path of an interpreter of this version in it; `configuration` is that of another image."""

    layers: tuple[ImageLayer, ...]
    python: str
    configuration: Tree = field(default_factory=dict)


def read_base(path: Path, work: Path, show: Callable[[str], None]) -> Base:
    """What is at `path`; layers that have to be made are put in the folder `work`. `show` is told of each file.

    Raises `CommandError`.
    """
    try:
        if path.is_dir():
            return _layout(path, path) if (path / LAYOUT).is_file() else _root_folder(path, work, show)
        with tarfile.open(path) as archive:
            is_layout = any(entry.name.removeprefix("./") == LAYOUT for entry in archive)
        if not is_layout:
            return _root_archive(path, work)
        unpacked = work / "base"
        with tarfile.open(path) as archive:
            archive.extractall(unpacked, filter="data")
        return _layout(unpacked, path)
    except (OSError, tarfile.TarError, EOFError) as error:
        why = getattr(error, "strerror", None) or f"it can't be read: {error}"
        raise CommandError(f"--base={getattr(error, 'filename', None) or path}: {why}") from None


def _root_folder(path: Path, work: Path, show: Callable[[str], None]) -> Base:
    names: list[str] = []
    with LayerWriter(work / "root.tar.gz") as writer:
        for name, file in _walk(path):
            names.append(name)
            show(f"packing the base: {name}")
            if file.is_symlink():
                writer.add_link(name, os.readlink(file))
            elif file.is_dir():
                writer.add_folder(name)
            elif file.is_file():
                writer.add(name, file.read_bytes(), executable=os.access(file, os.X_OK))
    return Base((writer.layer,), _python(names, path))


def _walk(root: Path) -> Iterator[tuple[str, Path]]:
    """What is below `root`, folders before what is in them, in order; links aren't followed."""
    for folder, folders, files in os.walk(root):
        folders.sort()
        links = [name for name in folders if (Path(folder) / name).is_symlink()]
        for name in sorted([*files, *folders]):
            path = Path(folder) / name
            yield path.relative_to(root).as_posix(), path
        for name in links:
            folders.remove(name)


def _root_archive(path: Path, work: Path) -> Base:
    """A tar of a root file system as it is, but compressed anew: its compression may have a time in it."""
    with tarfile.open(path) as archive:
        names = [entry.name.removeprefix("./") for entry in archive]
    with path.open("rb") as raw:
        packed = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        with gzip.GzipFile(fileobj=raw) if packed else contextlib.nullcontext(raw) as source:
            layer = hashed_copy(source, work / "root.tar.gz")
    return Base((layer,), _python(names, path))


def _layout(folder: Path, path: Path) -> Base:
    """The image in a layout, for this kind of machine if there are several."""
    tree = _document(folder / "index.json", path)
    for _ in range(4):  # an index may be in an index
        manifests = tree.get("manifests")
        if manifests is None:
            break
        tree = _document(_blob(folder, _ours(manifests, path), path), path)
    configuration = _document(_blob(folder, tree.get("config") or {}, path), path)
    identifiers = (configuration.get("rootfs") or {}).get("diff_ids") or []
    parts = tree.get("layers") or []
    if not parts or len(identifiers) != len(parts):
        raise CommandError(f"--base={path}: its manifest and its configuration have different layers")
    layers = tuple(
        ImageLayer(_blob(folder, part, path), part["digest"], part["size"], identifier, part["mediaType"])
        for part, identifier in zip(parts, identifiers, strict=True)
    )
    names = [name for layer in layers for name in _names_in(layer, path)]
    return Base(layers, _python(names, path), configuration)


def _ours(manifests: list[Tree], path: Path) -> Tree:
    machine = architecture()
    for manifest in manifests:
        platform = manifest.get("platform") or {}
        if platform.get("architecture", machine) == machine and platform.get("os", "linux") == "linux":
            return manifest
    raise CommandError(f"--base={path}: it has no image for linux/{machine}")


def _blob(folder: Path, descriptor: Tree, path: Path) -> Path:
    digest = str(descriptor.get("digest", ""))
    if not re.fullmatch(r"sha256:[0-9a-f]{64}", digest):
        raise CommandError(f"--base={path}: the reference {digest or 'nothing'} isn't a SHA-256 digest")
    return folder / "blobs" / digest.replace(":", "/")


def _document(file: Path, path: Path) -> Tree:
    try:
        with file.open("rb") as opened:
            tree = json.loads(opened.read(MOST_DOCUMENT_BYTES))
    except ValueError:
        tree = None
    if not isinstance(tree, dict):
        raise CommandError(f"--base={path}: {file.name} isn't a JSON object")
    return tree


def _names_in(layer: ImageLayer, path: Path) -> list[str]:
    if layer.media_type.endswith("zstd"):
        raise CommandError(f"--base={path}: its layers are compressed with zstd: compress them with gzip")
    with tarfile.open(layer.file) as archive:
        return [entry.name.removeprefix("./") for entry in archive]


def architecture() -> str:
    """This kind of machine, as images name it."""
    machine = os.uname().machine
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(machine, machine)


def _python(names: list[str], path: Path) -> str:
    """The interpreter for the packages of this Python."""
    wanted = f"python{sys.version_info.major}.{sys.version_info.minor}"
    found = sorted(name for name in names if name.rpartition("/")[2] == wanted and "bin/" in name)
    if found:
        return f"/{found[0]}"
    others = sorted({name.rpartition("/")[2] for name in names if re.fullmatch(r"(.*/)?bin/python3\.\d+", name)})
    has = f"it has {', '.join(others)}" if others else "it has no Python"
    raise CommandError(
        f"--base={path}: {has}, but the packages here are for {wanted}: run oarlock image with the same Python"
    )
