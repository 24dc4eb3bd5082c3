"""Requests to a subresource that passes them on: ``proxy`` of nodes, pods and services, ``exec`` and ``log`` of pods.

Authorization and admission come before; admission is told the path as Kubernetes' options of the subresource are.
Must not know: where requests go. See also: ``registry.served``, the hooks that pass them on.
Source: k8s.io/apiserver ``endpoints/handlers`` ConnectResource.
"""

from __future__ import annotations

from oarlock.endpoints.http import Response
from oarlock.endpoints.request_state import RequestState
from oarlock.endpoints.routing.route import ResourceRoute, Verb
from oarlock.endpoints.verbs.subresource import admit_connection, connection_context, parent_of
from oarlock.registry.hooks.hook_caller import named_values_of
from oarlock.registry.served import ForwardHook, ProxyHook

__all__ = ["METHODS", "forward", "proxy"]

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


def proxy(hook: ProxyHook) -> Verb:
    """The verb that passes a request on."""

    async def pass_on(state: RequestState, route: ResourceRoute) -> Response:
        path = _asked_for(state, route)
        await admit_connection(state.context(options={"path": path} if path else {}), route)
        response: Response = await hook.answer(state, path)
        return response

    return pass_on


def forward(hook: ForwardHook) -> Verb:
    """The verb that passes on what is asked about an object that is there."""

    async def pass_on(state: RequestState, route: ResourceRoute) -> Response:
        given = named_values_of(route.entry.subresources[hook.name].parameters, route.pairs)
        if hook.connects:
            await connection_context(state, route, given)
        response: Response = await hook.answer(state, await parent_of(state, route), given)
        return response

    return pass_on


def _asked_for(state: RequestState, route: ResourceRoute) -> str:
    """The path behind the subresource; without one the parameter ``path``, which is empty unless given."""
    behind = route.target.path
    if behind or state.request.path.endswith("/"):
        return f"/{behind}"
    return next((value for name, value in route.pairs if name == "path"), "")
