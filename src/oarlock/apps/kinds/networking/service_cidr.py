"""ServiceCIDRs of networking.k8s.io."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import Final

from oarlock.apps.kinds.common.columns import age, age_of, first_few, text
from oarlock.apps.kinds.common.first_status import empty_status
from oarlock.apps.kinds.common.rules import IMMUTABLE
from oarlock.apps.kinds.common.trees import at, go_value
from oarlock.apps.kinds.common.values import check_cidr
from oarlock.apps.kinds.declaration import KindDeclaration
from oarlock.meta.context import Context
from oarlock.meta.fielderrors import FieldError, Invalid, Required
from oarlock.meta.json_trees import Tree


def _validate(new: Tree, old: Tree | None, ctx: Context) -> Iterator[FieldError]:
    ranges = at(new, "spec.cidrs", [])
    if old is not None:
        before = at(old, "spec.cidrs", [])
        if not len(before) <= len(ranges) <= 2:
            yield Invalid("spec.cidrs", ranges, IMMUTABLE)
            return
        for i, (text, was) in enumerate(zip(ranges, before, strict=False)):
            if text != was:
                yield Invalid(f"spec.cidrs[{i}]", text, IMMUTABLE)
                return
    if not ranges:
        yield Required("spec.cidrs", "at least one CIDR required")
        return
    if len(ranges) > 2:
        yield Invalid("spec.cidrs", go_value("ServiceCIDRSpec", new["spec"]), "may only hold up to 2 values")
    bad = [error for i, text in enumerate(ranges) for error in check_cidr(text, f"spec.cidrs[{i}]")]
    if len(ranges) == 2 and not bad and len({ipaddress.ip_network(text).version for text in ranges}) == 1:
        why = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64"
        yield Invalid("spec.cidrs", ranges, why)
    yield from bad


SERVICE_CIDR: Final = KindDeclaration(
    "networking.k8s.io",
    "v1",
    "ServiceCIDR",
    "servicecidrs",
    namespaced=False,
    status=True,
    status_metadata=(),
    columns=(text("CIDRs"), age()),
    complete=empty_status,
    row=lambda tree, now: [first_few(at(tree, "spec.cidrs", [])), age_of(tree, now)],
    validate=_validate,
)
