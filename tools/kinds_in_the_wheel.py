"""Puts the types of one Kubernetes release into the wheel, so that a plain install serves pods and deployments.

They come from the package ``kubernetes-validate``, which has every release and 69 MB: it is needed to build, and by
those who want the kinds of another release. In the wheel they are one file of 250 KB.
See also: ``oarlock.schema.released.published``, which reads it.
"""

from __future__ import annotations

import gzip
import importlib.util
import json
import re
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PLACE = "oarlock/schema/released"


class KindsHook(BuildHookInterface[Any]):
    """Called by hatchling for each wheel."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the file; for an editable install, to the checkout."""
        release, data = newest()
        editable = version == "editable"
        folder = Path(self.root, "src", PLACE) if editable else Path(tempfile.mkdtemp(prefix="oarlock-kinds-"))
        file = folder / f"v{release}.json.gz"
        file.write_bytes(data)
        if not editable:
            build_data["force_include"][str(file)] = f"{PLACE}/{file.name}"


def newest() -> tuple[str, bytes]:
    """The newest release in the package, such as ``1.37``, and its types as the wheel has them."""
    spec = importlib.util.find_spec("kubernetes_validate")
    if spec is None or spec.origin is None:
        raise RuntimeError("to build the wheel needs kubernetes-validate")
    found = {}
    for file in (Path(spec.origin).parent / "kubernetes-json-schema").glob("v*-local/_definitions.json"):
        numbers = re.findall(r"\d+", file.parent.name)
        found[int(numbers[0]), int(numbers[1])] = file
    release = max(found)
    tree = json.loads(found[release].read_bytes())
    data = json.dumps(tree, separators=(",", ":"), sort_keys=True).encode()
    return ".".join(map(str, release)), gzip.compress(data, mtime=0)
