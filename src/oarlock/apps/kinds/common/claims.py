"""The specification of a claim for a volume: of a PersistentVolumeClaim, and of the template in an ephemeral volume.

Source: Kubernetes' validation of core/v1, ``ValidatePersistentVolumeClaimSpec``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from oarlock.apps.kinds.common.trees import at
from oarlock.apps.kinds.common.values import check_label_selector, check_text
from oarlock.meta import names
from oarlock.meta.fielderrors import FieldError, Forbidden, Invalid, NotSupported, Required
from oarlock.meta.json_trees import Tree
from oarlock.meta.quantities import QuantityError, parse_quantity

ACCESS_MODES: Final = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
VOLUME_MODES: Final = ("Block", "Filesystem")


def check_claim_spec(spec: Tree, path: str) -> Iterator[FieldError]:
    """The errors in the specification of a claim."""
    if not spec.get("accessModes"):
        yield Required(f"{path}.accessModes", "at least 1 access mode is required")
    yield from check_label_selector(spec.get("selector"), f"{path}.selector")
    yield from check_access_modes(spec.get("accessModes") or (), f"{path}.accessModes")
    storage = at(spec, "resources.requests.storage")
    if storage is None:
        yield Required(f"{path}.resources[storage]")
    else:
        yield from check_positive(storage, f"{path}.resources[storage]")
    if spec.get("storageClassName"):
        yield from check_text(names.dns1123_subdomain, spec["storageClassName"], f"{path}.storageClassName")
    mode = spec.get("volumeMode")
    if mode is not None and mode not in VOLUME_MODES:
        yield NotSupported(f"{path}.volumeMode", mode, VOLUME_MODES)
    yield from _check_sources(spec, path)
    if spec.get("volumeAttributesClassName"):
        attributes = spec["volumeAttributesClassName"]
        yield from check_text(names.dns1123_subdomain, attributes, f"{path}.volumeAttributesClassName")


def check_access_modes(modes: Any, path: str) -> Iterator[FieldError]:
    """Who may use a volume at the same time."""
    for mode in modes:
        if mode not in ACCESS_MODES:
            yield NotSupported(path, mode, ACCESS_MODES)
    if "ReadWriteOncePod" in modes and any(mode in ACCESS_MODES[:3] for mode in modes):
        yield Forbidden(path, "may not use ReadWriteOncePod with other access modes")


def check_positive(value: Any, path: str) -> Iterator[FieldError]:
    """A quantity above zero."""
    try:
        amount = parse_quantity(value)
    except QuantityError:
        return
    if amount <= 0:
        yield Invalid(path, str(value), "must be greater than zero")


def _check_sources(spec: Tree, path: str) -> Iterator[FieldError]:
    """What a volume is filled from."""
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    for name, data_source in (("dataSource", source), ("dataSourceRef", reference)):
        if data_source is None:
            continue
        for field in ("name", "kind"):
            if not data_source.get(field):
                yield Required(f"{path}.{name}.{field}")
        group = data_source.get("apiGroup") or ""
        if not group and data_source.get("kind") != "PersistentVolumeClaim":
            why = "must be 'PersistentVolumeClaim' when referencing the default apiGroup"
            yield Invalid(f"{path}.{name}", data_source.get("kind", ""), why)
        elif group:
            yield from check_text(names.dns1123_subdomain, group, f"{path}.{name}.apiGroup")
    namespace = (reference or {}).get("namespace")
    if namespace:
        yield from check_text(names.dns1123_label, namespace, f"{path}.dataSourceRef.namespace")
        if source is not None:
            yield Invalid(path, {}, "may not be specified when dataSourceRef.namespace is specified")
    elif source is not None and reference is not None:
        keys = ("apiGroup", "kind", "name")
        if [source.get(key) for key in keys] != [reference.get(key) for key in keys]:
            yield Invalid(path, {}, "must match dataSourceRef")
