"""hello.zeng.dev/v1: a message and nothing else.

There is no image here; v1 keeps the one of v2 in an annotation, so that nothing is lost on the way.
"""

from typing import Annotated, Self

from oarlock import Column, Doc, MinLength, Model, Proto, Spoke, replace

from ..v2 import foo as v2

IMAGE = "spec.image"
DEFAULT_IMAGE = "busybox:1.36"


class FooSpec(Model):
    """What the user wants."""

    msg: Annotated[str, Proto(1), MinLength(1), Doc("The message.")]
    msg1: Annotated[str | None, Proto(2), Doc("A second message.")] = None


class Foo(
    Spoke[v2.Foo],
    version="v1",
    columns=[
        Column("Age", ".metadata.creationTimestamp", "date"),
        Column("Message", ".spec.msg"),
        Column("Message1", ".spec.msg1", priority=1),
    ],
):
    """A foo says hello."""

    spec: Annotated[FooSpec, Proto(2)]

    def default(self) -> None:
        if self.metadata.name:
            self.metadata.labels.setdefault(v2.NAME_LABEL, self.metadata.name)
        self.metadata.annotations.setdefault(IMAGE, DEFAULT_IMAGE)

    def to_hub(self) -> v2.Foo:
        annotations = dict(self.metadata.annotations)
        image = annotations.pop(IMAGE, "") or DEFAULT_IMAGE
        return v2.Foo(
            metadata=replace(self.metadata, annotations=annotations),
            spec=v2.FooSpec(image=image, config=v2.Config(msg=self.spec.msg, msg1=self.spec.msg1)),
        )

    @classmethod
    def from_hub(cls, hub: v2.Foo) -> Self:
        return cls(
            metadata=replace(hub.metadata, annotations={**hub.metadata.annotations, IMAGE: hub.spec.image}),
            spec=FooSpec(msg=hub.spec.config.msg, msg1=hub.spec.config.msg1),
        )
