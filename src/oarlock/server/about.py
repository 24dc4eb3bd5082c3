"""The name and version of this program."""

from __future__ import annotations

import os
import sys

__all__ = ["own_version"]


def own_version() -> str:
    """The installed version; ``0.0.0`` when the source is run without being installed."""
    for folder in sys.path:
        try:
            found = [one for one in os.listdir(folder or ".") if one.startswith(("oarlock-", "oarlock.egg-info"))]
        except OSError:  # a zip file, or not there
            continue
        if found:
            alone = len(found) == 1 and found[0].endswith(".dist-info") and found[0].count("-") == 2
            return (_version_in(os.path.join(folder, found[0], "METADATA")) if alone else "") or _search()
    return _search()


def _version_in(metadata_file: str) -> str:
    """The version in a file of the core metadata specification, whose head ends at the first empty line."""
    try:
        with open(metadata_file, encoding="utf-8") as lines:
            for line in lines:
                if line.startswith("Version:"):
                    return line.removeprefix("Version:").strip()
                if not line.strip():
                    break
    except OSError:
        pass
    return ""


def _search() -> str:
    from importlib import metadata  # noqa: PLC0415 (20 ms of every start: it imports email and zipfile)

    try:
        return metadata.version("oarlock")
    except metadata.PackageNotFoundError:
        return "0.0.0"
