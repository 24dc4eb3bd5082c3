"""`ControlPlane`: an `APIServer` that serves Kubernetes' own kinds, and a user's beside them.

    server = ControlPlane(serve=[Databases], controllers=[DatabaseController()])

See also: `parts`, what it is made of.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from oarlock.apps.admission.configuration_file import AdmissionFileError
from oarlock.apps.api_server import DEFAULT_NAME, APIServer, Prototype
from oarlock.apps.controllers.certificates.signing import BadAuthority, SigningAuthority
from oarlock.apps.controllers.leading import elected_controllers, own
from oarlock.apps.controllers.role_aggregation import create_declared_roles
from oarlock.apps.controlplane.options import (
    ControlPlaneOptions,
    PluginSwitchError,
    for_control_plane,
    missing_plugins,
    plugins_asked,
    reviews_built_in_kinds,
)
from oarlock.apps.controlplane.part import ControlPlanePart, MakePart, PartSurroundings
from oarlock.apps.controlplane.parts.standard import standard_parts
from oarlock.apps.kinds.pods.subresources import PodHooks
from oarlock.client.client import Client
from oarlock.client.clock import SystemClock
from oarlock.client.informers.informer import Informer
from oarlock.client.login.kubeconfig import ClientConfigError
from oarlock.policy.admission.plugin import AnyPlugin, PlacedPlugin
from oarlock.policy.authn.authenticator import Authenticator
from oarlock.policy.authz.authorizer import Authorizer
from oarlock.policy.authz.union import Access
from oarlock.schema.types.declaring import KeywordError, did_you_mean
from oarlock.server.assembly.own_work import Runnable, ServerHook
from oarlock.server.config import ServerConfig
from oarlock.server.description import LiveCatalog, UserCode
from oarlock.storage.backend import Backend

if TYPE_CHECKING:
    from oarlock.apps.controlplane.part import ControlPlanePart

T = TypeVar("T")

CONTROLLERS = "controllers"
"""What disables every controller."""

_SHORT_NAMES = {
    "clusterrole-aggregation": "clusterrole-aggregation-controller",
    "csrapproving": "certificatesigningrequest-approving-controller",
    "csrcleaner": "certificatesigningrequest-cleaner-controller",
    "csrsigning": "certificatesigningrequest-signing-controller",
    "garbagecollector": "garbage-collector-controller",
    "legacy-serviceaccount-token-cleaner": "legacy-serviceaccount-token-cleaner-controller",
    "namespace": "namespace-controller",
    "resourcequota": "resourcequota-controller",
    "root-ca-cert-publisher": "root-ca-certificate-publisher-controller",
    "serviceaccount": "serviceaccount-controller",
    "serviceaccount-token": "serviceaccount-token-controller",
    "tokencleaner": "token-cleaner-controller",
    "validatingadmissionpolicy-status": "validatingadmissionpolicy-status-controller",
}

_GUESS = "did you mean"

_MANAGED = frozenset(
    (
        "certificatesigningrequest-approving-controller",
        "certificatesigningrequest-cleaner-controller",
        "certificatesigningrequest-signing-controller",
        "clusterrole-aggregation-controller",
        "garbage-collector-controller",
        "namespace-controller",
        "resourcequota-controller",
        "root-ca-certificate-publisher-controller",
        "serviceaccount-controller",
        "serviceaccount-token-controller",
        "storage-version-migrator-controller",
        "validatingadmissionpolicy-status-controller",
    )
)
"""kube-controller-manager's. The others are kube-apiserver's own, which serves nothing without them."""


class UnknownSwitch(ValueError):
    """A name that ``disable`` or ``controllers`` can't have. `option` is which of the two, `name` what was given."""

    def __init__(self, option: str, name: str, why: str) -> None:
        super().__init__(f"{option}={name}: {why}")
        self.option, self.name, self.why = option, name, why


def parts_left(
    parts: Sequence[ControlPlanePart], disable: Sequence[str], controllers: Sequence[str]
) -> list[ControlPlanePart]:
    """The parts that aren't disabled, with the controllers that shall run. Raises `UnknownSwitch`.

    `controllers` is about those of kube-controller-manager alone, as in Kubernetes.
    """
    names = {part.name for part in parts}
    running = {name for part in parts for name in part.controllers}
    for name in disable:
        if _long(name) not in names | running | {CONTROLLERS}:
            known = _known(name, names | running | {CONTROLLERS})
            if not known.startswith(_GUESS):
                known = f"the parts are {', '.join(sorted(names))}; the controllers are {', '.join(sorted(running))}"
            raise UnknownSwitch("disable", name, f"isn't a part or a controller: {known}")
    left = [part for part in parts if part.name not in disable]
    for part in left:
        for need in sorted(set(part.needs) & set(disable)):
            raise UnknownSwitch("disable", need, f"{part.name} needs it: disable {part.name}, too")
    switched = running & _MANAGED.union(*(part.managed for part in parts))
    left_on = _wanted(controllers, running, switched) | (running - switched)
    wanted = set() if CONTROLLERS in disable else left_on - set(map(_long, disable))
    return [replace(part, controllers=_among(part.controllers, wanted)) for part in left]


def _wanted(words: Sequence[str], running: set[str], managed: set[str]) -> set[str]:
    """What a list such as ``*,-name`` selects of those `managed`; an explicit name comes before ``*``."""
    for word in words:
        name = _long(word.removeprefix("-"))
        if word != "*" and name in running - managed:
            raise UnknownSwitch(
                CONTROLLERS, word, f"it isn't one of kube-controller-manager's: leave it out with disable={name}"
            )
        if word != "*" and name not in managed:
            known = _known(word.removeprefix("-"), managed)
            raise UnknownSwitch(CONTROLLERS, word, f"isn't a controller: {known}")
    listed = {_long(word) for word in words if word != "*" and not word.startswith("-")}
    excluded = {_long(word[1:]) for word in words if word.startswith("-")}
    return (managed if "*" in words else set()) - excluded | listed


def _known(word: str, names: set[str]) -> str:
    """What a wrong name may have meant, also by a short name; else the names there are."""
    short = {short for short, name in _SHORT_NAMES.items() if name in names}
    guess = did_you_mean(word, names | short)
    return guess if guess.startswith(_GUESS) else did_you_mean(word, names)


def _long(name: str) -> str:
    return _SHORT_NAMES.get(name, name)


def _among(controllers: Mapping[str, T], wanted: Iterable[str]) -> Mapping[str, T]:
    return {name: controller for name, controller in controllers.items() if name in wanted}


log = logging.getLogger("oarlock.controllers")

SIGNER = "certificatesigningrequest-signing-controller"


class ControlPlane(APIServer):
    """A kube-apiserver without nodes: it serves namespaces, configuration, events, leases and other kinds, and yours.

    The keywords are those of `APIServer`; your items come after the control plane's own.

    - `parts`: parts of your own (``oarlock.extend``), which come after the built-in ones.
    - `disable`: the parts or controllers to leave out.
    - `options`: the other settings of ``oarlock up``.
    - `pods`: answers logs of pods and commands in them, which have no kubelet.

    Raises what `APIServer` raises.
    """

    default_authorization: tuple[str, ...] = ("RBAC",)
    _signs = True
    _certificates: Path | None
    _front_proxy: Path | None

    def __init__(
        self,
        *,
        serve: Sequence[Any] = (),
        admission: Sequence[AnyPlugin | PlacedPlugin] = (),
        informers: Sequence[Informer[Any]] = (),
        controllers: Sequence[Runnable] = (),
        authenticators: Sequence[Authenticator] = (),
        authorizer: Authorizer | None = None,
        on_start: ServerHook | None = None,
        on_stop: ServerHook | None = None,
        name: str = DEFAULT_NAME,
        storage: Backend | None = None,
        parts: Sequence[MakePart] = (),
        disable: Sequence[str] = (),
        pods: PodHooks | None = None,
        options: ControlPlaneOptions | None = None,
    ) -> None:
        access, live, options = Access(), LiveCatalog(), options or ControlPlaneOptions()
        self._disabled, self._options = tuple(disable), options
        self._certificates = self._front_proxy = None
        self._signing_file = options.cluster_signing_cert_file
        around = PartSurroundings(
            identities=lambda: self.identities,
            address=lambda: self.address,
            access=access,
            live=live,
            options=options,
            migrate=self.migrate,
            store=lambda: self._serving().backend,
            certificates=lambda: None if self.identities is None else self._certificates,
            signs=lambda: self.identities is None or self._signs,
            front_proxy=lambda: None if self.identities is None else self._front_proxy,
            pods=pods,
        )
        every = _all_parts(around, parts)
        of_users = every[len(every) - len(parts) :]
        starts = any(part.admission or part.start or part.fills_catalog for part in of_users)
        self._has_own_start = starts or any(map(reviews_built_in_kinds, admission))
        try:
            left = parts_left(every, (*disable, *options.disable), options.controllers)
        except UnknownSwitch as error:
            raise KeywordError("ControlPlane", f"{error.option}={error.name}", error.why) from error
        self._has_signer = any(SIGNER in part.controllers for part in left)
        live.filled_at_start = any(part.fills_catalog for part in left)
        standard = [plugin for part in left for plugin in part.admission]
        try:
            plugins = plugins_asked(standard, admission, options)
        except PluginSwitchError as error:
            raise KeywordError("ControlPlane", str(error), "see docs/admission.md") from error
        self.missing_plugins = missing_plugins(plugins, options)
        """Admission plugins that were asked for and aren't here."""
        super().__init__(
            serve=[item for part in left for item in part.serve] + [*serve],
            admission=plugins,
            informers=[informer for part in left for informer in part.informers] + [*informers],
            controllers=[*elected_controllers(left, lambda: self.shares_store), *controllers],
            garbage_collection="external",
            authenticators=authenticators,
            authorizer=authorizer,
            access=access,
            admission_counts=around.admission_counts,
            live=live,
            on_start=self._start_of(left, on_start),
            on_stop=on_stop,
            name=name,
            storage=storage,
        )
        own = [plugin.plugin if isinstance(plugin, PlacedPlugin) else plugin for plugin in admission]
        self.user_code = UserCode(own, tuple(informers), tuple(controllers))

    def prototype(self) -> Prototype | None:
        if self._has_own_start:
            return None
        disabled, options = self._disabled, self._options
        return Prototype((disabled, options), lambda: ControlPlane(disable=disabled, options=options))

    def configured(self, config: ServerConfig) -> ServerConfig:
        self._certificates = config.certificates
        if config.requestheader_client_ca_file is None:  # else somebody else says who is a front proxy
            self._front_proxy = config.data_directory / "pki"
        self._signs = config.client_ca_file is None and not config.follows_cluster
        return for_control_plane(config)

    def prepared(self, config: ServerConfig) -> ServerConfig:
        """Lets clients in by the certificates that it signs itself, unless an option says by which."""
        if not (self._signs and self._has_signer):
            return config
        file = self._signing_file
        if file is None:
            file = SigningAuthority.kept_at(config.certificates)
            try:
                SigningAuthority.kept(config.certificates, SystemClock().now(), timedelta(0))
            except BadAuthority as error:
                log.warning("clients can't authenticate with certificates that this server signs: %s", error)
                return config
        return replace(config, client_ca_file=file)

    async def _own_roles(self, client: Client) -> None:
        await create_declared_roles(client, [resource.definition for resource in self.catalog.resources])

    def _start_of(self, parts: Sequence[ControlPlanePart], users: ServerHook | None) -> ServerHook:
        async def start(client: Client) -> None:
            for part in parts:
                if part.start is not None:
                    self.starting = f"bringing {part.name} up to date"
                    await part.start(own(client, part.name))
            await self._own_roles(own(client, "roles"))
            self.starting = "in on_start"
            made = users(client) if users is not None else None
            if inspect.isawaitable(made):
                await made

        return start


def _all_parts(around: PartSurroundings, users: Sequence[MakePart]) -> list[ControlPlanePart]:
    """The standard parts, then the users'. Raises KeywordError for a wrong option, and a name that another part has."""
    made = [make(around) for make in users]
    answering = [part.pods for part in made if part.pods is not None]
    if answering and around.pods is None:
        around = replace(around, pods=answering[0])
    try:
        every = standard_parts(around)
    except (AdmissionFileError, ClientConfigError) as error:
        problem = f"admission_control_config_file={around.options.admission_control_config_file}"
        raise KeywordError("ControlPlane", problem, str(error)) from error
    for part in made:
        if any(part.name == other.name for other in every):
            raise KeywordError("ControlPlane", f"parts={part.name}", "another part has this name")
        every.append(part)
    return every
