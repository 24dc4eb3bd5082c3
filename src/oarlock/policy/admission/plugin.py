"""`Admission`: an admission plugin, called after authorization and before an object is stored.

    class BanFlunder(Admission[Flunder], operations=["CREATE"]):
        async def validate(self, review: Review[Flunder]) -> None:
            if review.name == "badname":
                raise Denied("this name may not be used")

A plugin may wait (I/O): other requests go on meanwhile.
Must not know: trees, other plugins. See also: `typed`, which calls it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar, Generic, Literal, NamedTuple, Never, TypeVar, get_args

from oarlock.meta.context import Context, User
from oarlock.meta.dataclass import dataclass
from oarlock.policy.admission.chain import AdmissionPlugin, plugin_name
from oarlock.registry.hooks.methods import Hook, check_methods
from oarlock.schema.types.declaring import KeywordError, did_you_mean, refuse_unknown, type_argument
from oarlock.schema.types.resources import Resource, declared

T = TypeVar("T")

AdmissionOperation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]

_HOOKS = {"mutate": Hook(("review",), "async"), "validate": Hook(("review",), "async")}
_WRONG_GUESSES = {
    "admit": "mutate() changes objects, validate() refuses them",
    "handles": "say operations=[…] on the class",
}


@dataclass(frozen=True, slots=True)
class Review(Generic[T]):
    """One request under review, in the version that `T` names.

    `new` is the new object (None for DELETE). `old_object` is the live object (None for CREATE); don't change it.
    """

    operation: AdmissionOperation
    ctx: Context
    new: T | None
    old_object: T | None

    @property
    def object(self) -> T:
        """The new object. Raises LookupError for DELETE and CONNECT, which have none."""
        if self.new is None and self.operation == "CONNECT":
            raise LookupError("CONNECT has no object, only review.ctx.options, what the query says")
        if self.new is None:
            raise LookupError(f"{self.operation} has no new object, only review.old_object")
        return self.new

    @property
    def user(self) -> User:
        return self.ctx.user

    @property
    def dry_run(self) -> bool:
        """Whether nothing will be stored; a plugin must then avoid side effects."""
        return self.ctx.dry_run

    @property
    def namespace(self) -> str:
        """The namespace; empty for a cluster-scoped object."""
        return self.ctx.target.namespace

    @property
    def name(self) -> str:
        """The object's name, generated names included; empty for a whole collection."""
        if self.ctx.target.name:
            return self.ctx.target.name
        metadata: Any = getattr(self.new if self.new is not None else self.old_object, "metadata", None)
        return getattr(metadata, "name", "")

    @property
    def subresource(self) -> str:
        return self.ctx.target.subresource

    def warn(self, text: str) -> None:
        """Send a warning to the client (a ``Warning`` header, which kubectl prints)."""
        self.ctx.warn(text)


class Admission(Generic[T]):
    """A plugin for the objects of one kind. It is called for requests in any version, after authorization.

    - `T` is the version that the plugin works in; ``Admission[Resource]`` reviews every kind, with metadata only.
    - `operations` are CREATE and UPDATE by default; the others are DELETE and CONNECT.
    - `subresources` are those that it reviews besides the object itself, ``"*"`` for all. Without them it isn't called
      for ``/status`` or ``/scale``. A subresource of your own is reviewed with the class of its body:
      ``Admission[Receipt], subresources=["receipt"]`` reviews a POST as CREATE and a PUT as UPDATE, without an old
      object. ``review.name`` is then the parent's name.

    A subclass of a plugin that doesn't say one of these has its parent's.

    Plugins are called in the order of ``APIServer(admission=[…])``. A plugin that never waits sets ``waits = False``:
    its writes need no task, which makes them faster.
    """

    waits: ClassVar[bool] = True

    __resource__: ClassVar[Any] = None
    __operations__: ClassVar[frozenset[str]] = frozenset(("CREATE", "UPDATE"))
    __subresource_names__: ClassVar[frozenset[str]] = frozenset(("",))

    def __init_subclass__(
        cls,
        *,
        operations: Sequence[AdmissionOperation] | None = None,
        subresources: Sequence[str] | None = None,
        **unknown: Never,
    ) -> None:
        super().__init_subclass__()
        refuse_unknown(cls, unknown, Admission)
        subject = f"class {cls.__name__}"
        argument = type_argument(cls, Admission)
        if argument is None:
            raise KeywordError(subject, "admission to what?", f"write class {cls.__name__}(Admission[YourResource])")
        if not isinstance(argument, TypeVar):
            if argument is not Resource:
                declared(argument)
            cls.__resource__ = argument
        operation_names = get_args(AdmissionOperation)
        if isinstance(operations, str) or not set(operations or ()) <= set(operation_names):
            raise KeywordError(subject, f"operations={operations!r}", "a list of " + ", ".join(operation_names))
        if isinstance(subresources, str):
            raise KeywordError(subject, f"subresources={subresources!r}", "a list")
        if operations is not None:
            cls.__operations__ = frozenset(operations)
        if subresources is not None:
            cls.__subresource_names__ = frozenset(("", *subresources))
        check_methods(cls, _HOOKS, _WRONG_GUESSES, "__subresource__")

    async def mutate(self, review: Review[T]) -> None:
        """Change ``review.object`` in place. Raise `Denied`, or a field error, to reject the request.

        Called for each attempt of a write, before `prepare` and validation, and again on the newer object after a
        conflict. The result must be the same when it is called for its own result. Name, namespace and uid can't be
        changed.
        """

    async def validate(self, review: Review[T]) -> None:
        """Check the final object. Raise `Denied`, or a field error, to reject the request. Changes are discarded.

        Called for each attempt of a write, after schema validation and `StoredCollection.validate`.
        """


AnyPlugin = Admission[Any] | AdmissionPlugin


@dataclass(frozen=True, slots=True)
class PlacedPlugin:
    """A `plugin` with its place: called right `before` or `after` the plugin of that name. Give exactly one of the two.

    The name is that of a plugin of the control plane, disabled ones included, or of another plugin of yours. Raises
    `DeclarationError`.
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
