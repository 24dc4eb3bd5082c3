"""`PodHooks`: what answers logs of pods, commands in them and connections to them, in place of a kubelet.

    class Shells(PodHooks):
        @subresource("log")
        async def log(self, name: str, parent: dict[str, Any], *, follow: bool = False) -> AsyncIterator[bytes]:
            yield b"a line\\n"

    server = ControlPlane(pods=Shells())

See also: ``registry.subresource``, what such a method may take; `pods`, what is answered without.
"""

from __future__ import annotations

from typing import ClassVar

from oarlock.registry.conversions import NoConversion
from oarlock.registry.hooks.object_hooks import subresource_hooks
from oarlock.registry.hooks.subresource import DeclaredSubresource, find_subresources
from oarlock.registry.served import AnyHook
from oarlock.schema.definition import ResourceDefinition
from oarlock.schema.types.declaring import HookError

_NAMES = ("attach", "exec", "log", "portforward")


class PodHooks:
    """Serves ``log``, ``exec``, ``attach`` or ``portforward`` of pods, by methods of a subclass with `@subresource`.

    `parent` is the pod as a dict. The methods are called for every pod, also without a node. Subresources that have no
    method aren't served. `log` streams, the others connect.
    """

    __subresources__: ClassVar[tuple[DeclaredSubresource, ...]] = ()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.__subresources__ = find_subresources(cls)
        for hook in cls.__subresources__:
            subject, mark = f"{cls.__name__}.{hook.attribute}", hook.mark
            if mark.name not in _NAMES:
                raise HookError(subject, f"pods have no {mark.name!r} to answer", "there are " + ", ".join(_NAMES))
            if mark.name == "log" and not mark.media_type:
                raise HookError(subject, "a log is a stream", "write async def with yield")
            if mark.name != "log" and not mark.end:
                raise HookError(subject, "it has to connect", "say connect=True, or upgrade=")


def hooks_of_pods(pods: PodHooks, definition: ResourceDefinition) -> dict[str, AnyHook]:
    """The hooks of `pods` by subresource; `definition` is that of pods."""
    return subresource_hooks(pods, definition, NoConversion())
