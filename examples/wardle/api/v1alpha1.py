"""wardle.example.com/v1alpha1: the version that is stored, and the first one there was.

Here a flunder has a single reference, and `reference_type` says what it names.
"""

from __future__ import annotations

from typing import Annotated, Self

from oarlock import Atomic, Doc, Model, OmitEmpty, Resource, Spoke

from . import v1beta1


class FlunderSpec(Model):
    """What a flunder points at."""

    reference: Annotated[str, OmitEmpty, Doc("The name of a flunder or a fischer.")] = ""
    reference_type: Annotated[str, OmitEmpty, Doc("Flunder, or Fischer. Flunder unless given.")] = ""


class Flunder(
    Spoke[v1beta1.Flunder],
    version="v1alpha1",
    columns=[v1beta1.CREATED_AT],
    deprecated="wardle.example.com/v1alpha1 Flunder is deprecated in v1.3+, unavailable in v1.10+",
):
    """A flunder points at another flunder, or at a fischer."""

    spec: FlunderSpec = FlunderSpec()
    status: v1beta1.FlunderStatus = v1beta1.FlunderStatus()

    def default(self) -> None:
        if self.spec.reference and not self.spec.reference_type:
            self.spec.reference_type = "Flunder"

    def to_hub(self) -> v1beta1.Flunder:
        spec = v1beta1.FlunderSpec(reference_type=self.spec.reference_type)
        if spec.reference_type == "Fischer":
            spec.fischer_reference = self.spec.reference
        else:
            spec.flunder_reference = self.spec.reference
        return v1beta1.Flunder(metadata=self.metadata, spec=spec, status=self.status)

    @classmethod
    def from_hub(cls, hub: v1beta1.Flunder) -> Self:
        spec = hub.spec
        reference = spec.fischer_reference if spec.reference_type == "Fischer" else spec.flunder_reference
        return cls(
            metadata=hub.metadata,
            spec=FlunderSpec(reference=reference, reference_type=spec.reference_type),
            status=hub.status,
        )


class Fischer(
    Resource,
    group="wardle.example.com",
    version="v1alpha1",
    scope="Cluster",
    name_rule="path-segment",
    generation=False,
    columns=[v1beta1.CREATED_AT],
    deprecated="wardle.example.com/v1alpha1 Fischer is deprecated in v1.3+, unavailable in v1.10+",
):
    """A fischer decides which flunders may not be."""

    disallowed_flunders: Annotated[list[str], Atomic, OmitEmpty, Doc("Names no flunder may have.")] = []
