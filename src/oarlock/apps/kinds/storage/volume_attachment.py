"""VolumeAttachments of storage.k8s.io."""

from __future__ import annotations

from typing import Final

from oarlock.apps.kinds.common.cells import age_of
from oarlock.apps.kinds.common.columns import age, flag, text
from oarlock.apps.kinds.common.rules import immutable
from oarlock.apps.kinds.common.trees import at
from oarlock.apps.kinds.declaration import KindDeclaration

__all__ = ["VOLUME_ATTACHMENT"]


VOLUME_ATTACHMENT: Final = KindDeclaration(
    "storage.k8s.io",
    "v1",
    "VolumeAttachment",
    "volumeattachments",
    namespaced=False,
    status=True,
    status_metadata=(),
    delete_returns="object",
    columns=(text("Attacher"), text("PV"), text("Node"), flag("Attached"), age()),
    validate=immutable("spec"),
    row=lambda tree, now: [
        *(at(tree, path, "") for path in ("spec.attacher", "spec.source.persistentVolumeName", "spec.nodeName")),
        bool(at(tree, "status.attached")),
        age_of(tree, now),
    ],
)
