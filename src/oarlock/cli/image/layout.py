"""Writes and reads images as OCI image layouts. What is written, ``docker load`` reads as well.

Source: OCI image specification, image layout, manifest and configuration; Docker image specification v1.2.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Iterable
from pathlib import Path

from oarlock.cli.image.layers import ImageLayer
from oarlock.meta.dataclass import dataclass
from oarlock.meta.json_trees import Tree

__all__ = ["EPOCH", "Blob", "write_layout"]

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
