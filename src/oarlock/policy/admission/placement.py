"""`PlacedPlugin`: an admission plugin with its place among the others, and the function that arranges them all.

    admission=[PlacedPlugin(Prices(), before="ResourceQuota")]

Must not know: what plugins do, which names there are. See also: `chain`, which asks them in that order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from oarlock.meta.dataclass import dataclass
from oarlock.policy.admission.chain import AdmissionPlugin, plugin_name
from oarlock.policy.admission.plugin import Admission
from oarlock.schema.types.declaring import KeywordError, did_you_mean

__all__ = ["AnyPlugin", "PlacedPlugin", "arranged"]

AnyPlugin = Admission[Any] | AdmissionPlugin


@dataclass(frozen=True, slots=True)
class PlacedPlugin:
    """`plugin`, to be asked right `before` or `after` the plugin of that name; exactly one of the two is given.

    The name is that of a plugin of the control plane, also of one that is switched off, or of another plugin of yours.
    Raises `DeclarationError`.
    """

    plugin: AnyPlugin
    before: str = ""
    after: str = ""

    def __post_init__(self) -> None:
        if bool(self.before) == bool(self.after):
            raise KeywordError("PlacedPlugin", "say one of before= and after=", 'write before="ResourceQuota"')


class _Ranked(NamedTuple):
    """A plugin; `rank` is the place of its name, or of what it is beside, in the known order."""

    rank: float
    plugin: AnyPlugin


def arranged(
    own: Iterable[AnyPlugin], users: Iterable[AnyPlugin | PlacedPlugin], order: Sequence[str] = (), place: str = ""
) -> list[AnyPlugin]:
    """All plugins in the order in which they are asked.

    Those whose names are in `order` are asked in that order. Of the others, those of the server itself (`own`) come
    first, and those of `users` before `place`, or last; each as they are listed. Raises KeywordError for a place beside
    a name that nobody has, and for a user's plugin with the name of one of `own`.
    """
    ranks = {name: float(rank) for rank, name in enumerate(order)}
    listed = [*users]
    plain = [plugin for plugin in listed if not isinstance(plugin, PlacedPlugin)]
    users_rank = ranks.get(place, float(len(order))) - 0.5
    result = [_Ranked(ranks.get(plugin_name(plugin), -1.0), plugin) for plugin in own]
    _check_names({plugin_name(ranked.plugin) for ranked in result}, listed)
    result += [_Ranked(ranks.get(plugin_name(plugin), users_rank), plugin) for plugin in plain]
    result.sort(key=lambda ranked: ranked.rank)
    placed = [plugin for plugin in listed if isinstance(plugin, PlacedPlugin)]
    # the one that is listed last is right after the named one, so `after` goes backwards
    waiting = [plugin for plugin in placed if plugin.before] + [plugin for plugin in reversed(placed) if plugin.after]
    while waiting:
        left = [plugin for plugin in waiting if not _inserted(result, plugin, ranks)]
        if len(left) == len(waiting):
            raise _nowhere(left[0], {*ranks, *_names(result)} - {""}, listed)
        waiting = left
    return [ranked.plugin for ranked in result]


def _check_names(taken: set[str], users: Sequence[AnyPlugin | PlacedPlugin]) -> None:
    for user_plugin in users:
        plugin = user_plugin.plugin if isinstance(user_plugin, PlacedPlugin) else user_plugin
        name = plugin_name(plugin)
        if not isinstance(plugin, type) and name in taken:
            raise KeywordError("admission", f"there is a plugin {name} already", "give yours another name")


def _inserted(result: list[_Ranked], plugin: PlacedPlugin, ranks: dict[str, float]) -> bool:
    """Insert a plugin beside the one it names; False if that isn't there yet."""
    name = plugin.before or plugin.after
    there = [at for at, other in enumerate(result) if plugin_name(other.plugin) == name]
    if there:
        at = there[0] if plugin.before else there[-1] + 1
        rank = result[there[0]].rank
    elif name in ranks:
        rank = ranks[name]
        at = next((at for at, other in enumerate(result) if other.rank > rank), len(result))
    else:
        return False
    result.insert(at, _Ranked(rank, plugin.plugin))
    return True


def _nowhere(plugin: PlacedPlugin, names: set[str], users: Sequence[AnyPlugin | PlacedPlugin]) -> KeywordError:
    side, name = ("before", plugin.before) if plugin.before else ("after", plugin.after)
    if name in {plugin_name(other.plugin) for other in users if isinstance(other, PlacedPlugin)}:
        return KeywordError("PlacedPlugin", f"{side}={name!r}", "its place depends on its own")
    return KeywordError("PlacedPlugin", f"{side}={name!r}: there is no such plugin", did_you_mean(name, names))


def _names(result: Iterable[_Ranked]) -> Iterator[str]:
    return (plugin_name(ranked.plugin) for ranked in result)
