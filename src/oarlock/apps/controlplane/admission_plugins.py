"""Which of a control plane's admission plugins are asked, and in which order: Kubernetes' names, order and rules.

A plugin has the name of its class unless it has a ``name``. One of the control plane whose name isn't Kubernetes' can't
be switched: it is a part of what its kinds mean. Those of users can be disabled by name like Kubernetes'.
Texts are kube-apiserver's. See also: `options`, the names; ``policy.admission.plugin``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from oarlock.apps.controlplane.options import OFF_BY_DEFAULT, ORDERED_PLUGINS, USERS_PLACE, ControlPlaneOptions
from oarlock.meta.go.gotext import quote
from oarlock.meta.kinds import BUILT_IN_GROUPS
from oarlock.policy.admission.chain import plugin_name
from oarlock.policy.admission.plugin import Admission, AnyPlugin, PlacedPlugin, arranged
from oarlock.schema.types.resources import Resource, declared


class PluginSwitchError(ValueError):
    """Names of admission plugins that can't be switched so. `lines` are kube-apiserver's texts, an error each."""

    def __init__(self, lines: Sequence[str]) -> None:
        super().__init__("; ".join(lines))
        self.lines = tuple(lines)


def plugins_asked(
    own: Iterable[AnyPlugin], users: Sequence[AnyPlugin | PlacedPlugin], options: ControlPlaneOptions
) -> list[AnyPlugin]:
    """The plugins that are on, in the order in which they are asked.

    Raises PluginSwitchError, and KeywordError for a user's plugin without a place.
    """
    own = [*own]
    bare = [plugin.plugin if isinstance(plugin, PlacedPlugin) else plugin for plugin in users]
    theirs = {plugin_name(plugin) for plugin in bare}
    switchable = {*ORDERED_PLUGINS, *theirs}
    errors = [*_errors(options, switchable)]
    if errors:
        raise PluginSwitchError(errors)
    off = {*OFF_BY_DEFAULT} - theirs | {*options.disable_admission_plugins}
    if options.admission_control:
        off = switchable - {*options.admission_control}
    placed = arranged(own, users, ORDERED_PLUGINS, USERS_PLACE)
    return [plugin for plugin in placed if plugin_name(plugin) not in off - {*options.enable_admission_plugins}]


def missing_plugins(plugins: Iterable[AnyPlugin], options: ControlPlaneOptions) -> list[str]:
    """The names of what shall be enabled and isn't here."""
    names = {plugin_name(plugin) for plugin in plugins}
    return [name for name in options.enable_admission_plugins or options.admission_control if name not in names]


def _errors(options: ControlPlaneOptions, known: set[str]) -> Iterator[str]:
    enabled, disabled = options.enable_admission_plugins, options.disable_admission_plugins
    if options.admission_control and (enabled or disabled):
        yield "admission-control and enable-admission-plugins/disable-admission-plugins flags are mutually exclusive"
    flags = (
        ("admission-control", options.admission_control),
        ("enable-admission-plugins", enabled),
        ("disable-admission-plugins", disabled),
    )
    for flag, names in flags:
        for name in names:
            if name not in known:
                yield f"{flag} plugin {quote(name)} is unknown"
    both = sorted({*enabled} & {*disabled})
    if both:
        yield f"[{' '.join(both)}] in enable-admission-plugins and disable-admission-plugins overlapped"


def reviews_built_in_kinds(plugin: AnyPlugin | PlacedPlugin) -> bool:
    """Whether a user's plugin may be asked about what the control plane writes itself."""
    member = plugin.plugin if isinstance(plugin, PlacedPlugin) else plugin
    kind = type(member).__resource__ if isinstance(member, Admission) else Resource
    return kind is Resource or declared(kind).group in BUILT_IN_GROUPS
