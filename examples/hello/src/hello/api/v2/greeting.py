"""hello.zeng.dev/v2 Greeting: one for each language the server speaks, made when somebody asks."""

from typing import Annotated

from oarlock import Column, Doc, Model, Resource


class GreetingStatus(Model):
    """The greeting."""

    text: Annotated[str, Doc("Hello, in the language the object is named after.")]


class Greeting(
    Resource,
    group="hello.zeng.dev",
    version="v2",
    scope="Cluster",
    columns=[Column("Text", ".status.text")],
):
    """Hello in one language."""

    status: GreetingStatus
