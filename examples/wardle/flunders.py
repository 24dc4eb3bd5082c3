"""What the server does with flunders beyond storing them: it checks what they point at."""

from __future__ import annotations

from collections.abc import Iterator

from oarlock import Context, FieldError, Invalid, StoredCollection

from .api import v1alpha1
from .api.v1beta1 import Flunder


class Flunders(StoredCollection[Flunder], stored_as=v1alpha1.Flunder):
    """Flunders are written to the store as v1alpha1, so that an older server can still read them."""

    def validate(self, new: Flunder, old: Flunder | None, ctx: Context) -> Iterator[FieldError]:
        flunder, fischer, kind = new.spec.flunder_reference, new.spec.fischer_reference, new.spec.reference_type
        if flunder and fischer:
            yield Invalid("spec.fischerReference", fischer, "cannot be set with flunderReference at the same time")
        elif flunder and kind != "Flunder":
            yield Invalid("spec.flunderReference", flunder, "cannot be set if referenceType is not Flunder")
        elif fischer and kind != "Fischer":
            yield Invalid("spec.fischerReference", fischer, "cannot be set if referenceType is not Fischer")
        elif not fischer and kind == "Fischer":
            yield Invalid("spec.fischerReference", fischer, "cannot be empty if referenceType is Fischer")
        elif not flunder and kind == "Flunder":
            yield Invalid("spec.flunderReference", flunder, "cannot be empty if referenceType is Flunder")
        if kind not in ("", "Flunder", "Fischer"):
            yield Invalid("spec.referenceType", kind, "must be Flunder or Fischer")
