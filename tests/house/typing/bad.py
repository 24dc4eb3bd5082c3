"""Deliberate mistakes, one for each line that says so: mypy and pyright must both report every one.

Never imported. A hint that both checkers stop reporting means that a user's mistake got past the editor.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Self

import oarlock
from oarlock import (
    Admission,
    APIServer,
    Column,
    Context,
    FieldError,
    Model,
    Resource,
    Review,
    Spoke,
    StoredCollection,
    VirtualCollection,
    WatchOptions,
    replace,
)
from oarlock.client import Client
from oarlock.server.config import ServerConfig


class Spec(Model):
    size: int = 1


class Good(Resource, group="bad.example.com", version="v1", short_names=["g"], columns=[Column("Size", ".spec.size")]):
    spec: Spec = Spec()


class A(Resource, group="bad.example.com", version="v1", shortnames=["a"]):  # mistake: a misspelt keyword
    pass


class B(Resource, version="v1"):  # mistake: a missing keyword
    pass


class C(Resource, group=1, version="v1"):  # mistake: a keyword of the wrong type
    pass


class D(Resource, group="bad.example.com", version="v1", scope="Namespace"):  # mistake: not one of the choices
    pass


class E(Resource, group="bad.example.com", version="v1", columns=[Column("Size", kind="x")]):  # mistake: a misspelling
    pass


class F(Spoke[Good], version="v2", scope="Cluster"):  # mistake: a spoke has the scope of its hub
    def to_hub(self) -> Good:
        return Good()

    @classmethod
    def from_hub(cls, hub: Good) -> Self:
        return cls()


class G(Spoke[Spec], version="v2"):  # mistake: the hub is no Resource
    pass


class H(Spoke[Good], version="v2"):
    def to_hub(self) -> Spec:  # mistake: not the hub
        return Spec()

    @classmethod
    def from_hub(cls, hub: Good) -> Self:
        return cls()


class Goods(StoredCollection[Good], stored_at=Good):  # mistake: a misspelt keyword
    def prepare(self, new: Spec, old: Good | None, ctx: Context) -> None:  # mistake: the wrong kind of object
        pass

    def validate(self, new: Good, old: Good | None, ctx: Context) -> Iterator[FieldError]:
        yield "spec is wrong"  # mistake: not a field error


class Far(VirtualCollection[Good], off=Good):  # mistake: a misspelt keyword
    async def watch(self, ctx: Context, options: WatchOptions) -> AsyncIterator[tuple[str, Good]]:
        yield options.revision, Good()  # mistake: no such option


class Ban(Admission[Good], operations=["PATCH"]):  # mistake: no such operation
    async def validate(self, review: Review[Spec]) -> None:  # mistake: a review of something else
        pass


Good(spec=Spec(size="big"))  # mistake: a value of the wrong type
Good(spce=Spec())  # mistake: a misspelt field
Good(Spec())  # mistake: fields are keyword-only
Good().spec.sizes  # mistake: no such field  # noqa: B018
replace(Good(), spec=Spec()).spce  # mistake: no such field  # noqa: B018
Column("Size", ".spec.size", "int")  # mistake: no such column type
APIServer(Goods)  # mistake: what is served is given by keyword
oarlock.Informr  # mistake: no such name  # noqa: B018
ServerConfig(secure_prt=1)  # mistake: no such option
ServerConfig(secure_port="1")  # mistake: a value of the wrong type
ServerConfig("0.0.0.0")  # mistake: options are given by keyword


async def client_calls(client: Client) -> None:
    found = await client.get(Good, "a", namespace="default")
    found.spec.colour  # mistake: a field that the class does not have  # noqa: B018
    client.list(Good, namespce="default")  # mistake: a misspelt keyword
    await client.create(found, dry_run="yes")  # mistake: a keyword of another type
    await client.delete(Good, "a", propagation="Sideways")  # mistake: no such policy
    client.using(timeout=5)  # mistake: a setting that doesn't exist
