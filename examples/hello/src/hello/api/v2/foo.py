"""hello.zeng.dev/v2: the version the server's own code works with, and the one that is stored."""

from typing import Annotated, Literal

from oarlock import Column, Doc, ListMap, MinLength, Model, Proto, Resource

NAME_LABEL = "hello.zeng.dev/metadata.name"


class Config(Model):
    """What a foo says."""

    msg: Annotated[str, Proto(1), MinLength(1), Doc("The message.")]
    msg1: Annotated[str | None, Proto(2), Doc("A second message.")] = None


class FooSpec(Model):
    """What the user wants."""

    image: Annotated[str, Proto(1), MinLength(1), Doc("The container image that says it.")]
    config: Annotated[Config, Proto(2)]


class FooCondition(Model):
    """One aspect of a foo's state."""

    type: Annotated[Literal["Worker", "Config"], Proto(1)]
    status: Annotated[str, Proto(2)] = "Unknown"


class FooStatus(Model):
    """What the server found."""

    phase: Annotated[Literal["Processing", "Ready"] | None, Proto(1), Doc("How far the foo is.")] = None
    conditions: Annotated[list[FooCondition], Proto(2), ListMap("type")] = []


class Foo(
    Resource,
    group="hello.zeng.dev",
    version="v2",
    short_names=["fo"],
    categories=["all"],
    status_subresource=True,
    columns=[
        Column("Status", ".status.phase"),
        Column("Age", ".metadata.creationTimestamp", "date"),
        Column("Message", ".spec.config.msg"),
        Column("Message1", ".spec.config.msg1", priority=1),
    ],
):
    """A foo says hello."""

    spec: Annotated[FooSpec, Proto(2)]
    status: Annotated[FooStatus | None, Proto(3)] = None

    def default(self) -> None:
        if self.metadata.name:
            self.metadata.labels.setdefault(NAME_LABEL, self.metadata.name)
