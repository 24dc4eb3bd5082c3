"""Images as OCI image layouts: layers, which are tar archives, and the files around them. Docker loads them too.

Source: OCI image specification, image layout, manifest and configuration; Docker image specification v1.2.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import shutil
import tarfile
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Protocol

from oarlock.meta.dataclass import dataclass
from oarlock.meta.json_trees import Tree

MEDIA_TYPE = "application/vnd.oci.image.layer.v1.tar+gzip"


@dataclass(frozen=True, slots=True)
class ImageLayer:
    """A layer: a file that holds its bytes, and what a manifest and a configuration say of it."""

    file: Path
    digest: str
    size: int
    diff_id: str
    media_type: str = MEDIA_TYPE


class _Sink(Protocol):
    def write(self, data: bytes, /) -> object: ...


class _Source(Protocol):
    def read(self, size: int = ..., /) -> bytes: ...


class _Hashed(io.RawIOBase):
    """A file that remembers the digest and the size of what is written to it."""

    def __init__(self, file: _Sink) -> None:
        self._file = file
        self.hash = hashlib.sha256()
        self.size = 0

    def writable(self) -> bool:
        return True

    def write(self, data: bytes) -> int:  # type: ignore[override]
        self.hash.update(data)
        self.size += len(data)
        self._file.write(data)
        return len(data)

    @property
    def digest(self) -> str:
        return f"sha256:{self.hash.hexdigest()}"


class LayerWriter:
    """Writes a layer to `file`. Use as a context manager; `layer` says what was written, afterwards."""

    def __init__(self, file: Path) -> None:
        self._path = file
        self._folders: set[str] = set()

    def __enter__(self) -> LayerWriter:
        self._raw = self._path.open("wb")
        self._packed = _Hashed(self._raw)
        self._gzip = gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=self._packed, mtime=0)
        self._unpacked = _Hashed(self._gzip)
        self._tar = tarfile.open(fileobj=self._unpacked, mode="w|", format=tarfile.PAX_FORMAT)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._tar.close()
        self._gzip.close()
        self._raw.close()

    @property
    def layer(self) -> ImageLayer:
        """What was written."""
        return ImageLayer(self._path, self._packed.digest, self._packed.size, self._unpacked.digest)

    def add_folder(self, name: str) -> None:
        """A folder, and those above it."""
        parent = name.rpartition("/")[0]
        if parent:
            self.add_folder(parent)
        if name not in self._folders:
            self._folders.add(name)
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            self._tar.addfile(entry)

    def add(self, name: str, content: bytes, *, executable: bool = False) -> None:
        """A file, and the folders above it."""
        parent = name.rpartition("/")[0]
        if parent:
            self.add_folder(parent)
        entry = tarfile.TarInfo(name)
        entry.size, entry.mode = len(content), 0o755 if executable else 0o644
        self._tar.addfile(entry, io.BytesIO(content))

    def add_link(self, name: str, target: str) -> None:
        """A symbolic link."""
        self.add_folder(name.rpartition("/")[0]) if "/" in name else None
        entry = tarfile.TarInfo(name)
        entry.type, entry.linkname, entry.mode = tarfile.SYMTYPE, target, 0o777
        self._tar.addfile(entry)


def hashed_copy(source: _Source, target: Path) -> ImageLayer:
    """A layer with the uncompressed tar in `source` as it is."""
    with target.open("wb") as raw:
        packed = _Hashed(raw)
        with gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=packed, mtime=0) as file:
            unpacked = _Hashed(file)
            shutil.copyfileobj(source, unpacked, 1 << 20)
    return ImageLayer(target, packed.digest, packed.size, unpacked.digest)


EPOCH = "1970-01-01T00:00:00Z"
"""The time of everything in an image, so that the same files make the same image."""

INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIGURATION = "application/vnd.oci.image.config.v1+json"


@dataclass(frozen=True, slots=True)
class Blob:
    """A document of a layout, and how others refer to it."""

    media_type: str
    content: bytes

    @classmethod
    def of(cls, media_type: str, tree: Tree) -> Blob:
        return cls(media_type, json.dumps(tree, sort_keys=True, separators=(",", ":")).encode())

    @property
    def path(self) -> str:
        return f"blobs/sha256/{hashlib.sha256(self.content).hexdigest()}"

    @property
    def descriptor(self) -> Tree:
        digest = self.path.rpartition("/")[2]
        return {"mediaType": self.media_type, "digest": f"sha256:{digest}", "size": len(self.content)}


def write_layout(target: Path, configuration: Tree, layers: Iterable[ImageLayer], tag: str) -> str:
    """Write the image to the tar file `target`. Returns the digest of its manifest."""
    parts = tuple(layers)
    described = Blob.of(CONFIGURATION, configuration)
    manifest = Blob.of(
        MANIFEST,
        {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": described.descriptor,
            "layers": [{"mediaType": part.media_type, "digest": part.digest, "size": part.size} for part in parts],
        },
    )
    named = {"annotations": {"org.opencontainers.image.ref.name": tag, "io.containerd.image.name": tag}} if tag else {}
    index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": [{**manifest.descriptor, **named}]}
    docker = {
        "Config": described.path,
        "RepoTags": [tag] if tag else [],
        "Layers": [_path(part.digest) for part in parts],
    }
    with tarfile.open(target, "w", format=tarfile.PAX_FORMAT) as archive:
        for blob in sorted((described, manifest), key=lambda part: part.path):
            _add(archive, blob.path, blob.content)
        for layer in {part.digest: part for part in parts}.values():
            entry = _entry(_path(layer.digest), layer.size)
            with layer.file.open("rb") as file:
                archive.addfile(entry, file)
        _add(archive, "index.json", Blob.of(INDEX, index).content)
        _add(archive, "manifest.json", json.dumps([docker]).encode())
        _add(archive, "oci-layout", b'{"imageLayoutVersion":"1.0.0"}')
    return str(manifest.descriptor["digest"])


def _path(digest: str) -> str:
    return f"blobs/{digest.replace(':', '/', 1)}"


def _entry(name: str, size: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = size, 0o644
    return entry


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    archive.addfile(_entry(name, len(content)), io.BytesIO(content))
