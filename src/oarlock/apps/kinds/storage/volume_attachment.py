"""VolumeAttachments of storage.k8s.io."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from oarlock.apps.kinds.common.columns import age, age_of, flag, text
from oarlock.apps.kinds.common.first_status import initial_status
from oarlock.apps.kinds.common.rules import unchanged
from oarlock.apps.kinds.common.trees import at
from oarlock.apps.kinds.common.values import check_text
from oarlock.apps.kinds.declaration import KindDeclaration
from oarlock.apps.kinds.pods.volumes import check_csi_driver_name
from oarlock.meta import names
from oarlock.meta.context import Context
from oarlock.meta.fielderrors import FieldError, Forbidden, Required
from oarlock.meta.json_trees import Tree


def _validate(new: Tree, old: Tree | None, ctx: Context) -> Iterator[FieldError]:
    spec = new.get("spec") or {}
    attacher, source = spec.get("attacher") or "", spec.get("source") or {}
    if old is not None:
        yield from unchanged(new, old, "", "spec", kind="VolumeAttachmentSpec")
        return
    yield from check_csi_driver_name(attacher, "spec.attacher")
    inline, name = source.get("inlineVolumeSpec"), source.get("persistentVolumeName")
    if inline is None and name is None:
        why = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
        yield Required("spec.source", why)
    elif inline is not None and name is not None:
        yield Forbidden("spec.source", "must specify exactly one of inlineVolumeSpec and persistentVolumeName")
    elif name is not None:
        if not name:
            yield Required("spec.source.persistentVolumeName", "must specify non empty persistentVolumeName")
        yield from check_text(names.dns1123_subdomain, name, "spec.source.persistentVolumeName")
    yield from check_text(names.dns1123_subdomain, spec.get("nodeName") or "", "spec.nodeName")


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
    row=lambda tree, now: [
        *(at(tree, path, "") for path in ("spec.attacher", "spec.source.persistentVolumeName", "spec.nodeName")),
        bool(at(tree, "status.attached")),
        age_of(tree, now),
    ],
    validate=_validate,
    complete=initial_status(attached=False),
)
