"""`LayerWriter`: a layer of an image, the same bytes for the same files.

Entries are in the order in which they are added; owners are root, times are zero, modes are 0644 and 0755.
Source: OCI image specification, layer.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import shutil
import tarfile
from pathlib import Path
from types import TracebackType
from typing import Protocol

from oarlock.meta.dataclass import dataclass

__all__ = ["ImageLayer", "LayerWriter", "hashed_copy"]

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
