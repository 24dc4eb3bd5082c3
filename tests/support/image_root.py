"""A base for images, made of this machine's own Python, and an image unpacked as a container runtime does it."""

from __future__ import annotations

import gzip
import io
import json
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from re2 import _re2

__all__ = ["UnpackedImage", "python_base", "unpacked"]

PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"
LEFT_OUT = ("site-packages", "test", "tests", "idlelib", "lib2to3", "ensurepip", "tkinter", "turtledemo", "config-*")


@dataclass(frozen=True)
class UnpackedImage:
    """The root file system of an image, and its configuration."""

    root: Path
    config: dict[str, Any]


def python_base(folder: Path) -> Path:
    """A root file system with nothing but Python and the libraries that it loads."""
    here, there = Path(sys.base_prefix), folder / "usr" / "local"
    (there / "bin").mkdir(parents=True)
    program = (here / "bin" / PYTHON).resolve()
    shutil.copy(program, there / "bin" / PYTHON)
    shutil.copytree(here / "lib" / PYTHON, there / "lib" / PYTHON, ignore=shutil.ignore_patterns(*LEFT_OUT))
    extensions = sorted((here / "lib" / PYTHON / "lib-dynload").glob("*.so"))
    packages = (Path(_re2.__file__),)  # the one package that brings no C++ library of its own
    for library in sorted({path for file in (program, *extensions, *packages) for path in _libraries(file)}):
        target = folder / library.relative_to("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(library, target)
    return folder


def _libraries(file: Path) -> Iterator[Path]:
    """The shared libraries that the dynamic linker finds for `file`, and the linker itself."""
    done = subprocess.run(["ldd", str(file)], capture_output=True, text=True, check=True)
    for path in re.findall(r"(/\S+) \(0x", done.stdout):
        yield Path(path)


def unpacked(image: Path, root: Path) -> UnpackedImage:
    """`image`, a tar of an OCI image layout, with its layers one over the other in `root`."""
    with tarfile.open(image) as archive:
        blobs = {entry.name: archive.extractfile(entry).read() for entry in archive}  # type: ignore[union-attr]

    def blob(descriptor: dict[str, Any]) -> bytes:
        return blobs[f"blobs/{descriptor['digest'].replace(':', '/')}"]

    [described] = json.loads(blobs["index.json"])["manifests"]
    manifest = json.loads(blob(described))
    for layer in manifest["layers"]:
        with tarfile.open(fileobj=io.BytesIO(gzip.decompress(blob(layer)))) as archive:
            archive.extractall(root, filter="tar")
    return UnpackedImage(root, json.loads(blob(manifest["config"]))["config"])
