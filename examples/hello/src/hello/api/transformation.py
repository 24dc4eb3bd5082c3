"""transformation.zeng.dev/v1beta1: what goes into and comes out of a foo's base64 subresource."""

from typing import Annotated

from oarlock import Doc, Model, OmitEmpty, Resource


class Base64Spec(Model):
    """What to encode."""

    field_path: Annotated[str, OmitEmpty, Doc("A field, such as spec.image. The whole object unless given.")] = ""


class Base64Status(Model):
    """The result."""

    output: Annotated[str, OmitEmpty, Doc("Base64 of the field's JSON.")] = ""


class Base64(Resource, group="transformation.zeng.dev", version="v1beta1"):
    """Encodes an object, or a field of it."""

    spec: Base64Spec = Base64Spec()
    status: Base64Status = Base64Status()
