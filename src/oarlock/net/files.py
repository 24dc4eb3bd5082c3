"""`file_signature` tells whether a file has changed: certificates, tokens and kubeconfigs are replaced while we run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple


class FileSignature(NamedTuple):
    """Another value when the file has changed, or another file is in its place."""

    inode: int
    modified_ns: int
    size: int


def file_signature(path: Path) -> FileSignature | None:
    """The signature of what `path` leads to now; None for a file that isn't there or can't be looked at."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return FileSignature(status.st_ino, status.st_mtime_ns, status.st_size)
