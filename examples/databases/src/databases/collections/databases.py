"""What the server does with objects of the kind Database beyond storing them."""

from collections.abc import Iterator

from oarlock import Context, FieldError, Invalid, StoredCollection

from ..api.v1.database import Database


class Databases(StoredCollection[Database]):
    """Code for them goes here; the class of the kind has the schema."""

    def validate(self, new: Database, old: Database | None, ctx: Context) -> Iterator[FieldError]:
        """Refuse what can't be, and say every reason at once."""
        if new.metadata.name.startswith("kube-"):
            yield Invalid("metadata.name", new.metadata.name, "names that begin with kube- are Kubernetes' own")
