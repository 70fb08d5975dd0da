"""Pytrees: nested containers of values, taken apart into leaves and put together again.

Containers are tuples, lists, dicts (by sorted key), named tuples, None (which holds no leaf) and the classes that users
register; whatever else stands in them is a leaf. The walking is optree's; here are JAX's names and meanings, paths that
read like Python (`['layers'][0].weight`), and messages that say where two structures part.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, TypeVar

import optree

from distad.errors import TreeMismatchError

_NAMESPACE = 'distad'
PyTreeDef = optree.PyTreeSpec
IsLeaf = Callable[[Any], bool] | None
T = TypeVar('T')


@dataclasses.dataclass(frozen=True, slots=True)
class DictKey:
    key: Hashable

    def __str__(self) -> str:
        return f'[{self.key!r}]'


@dataclasses.dataclass(frozen=True, slots=True)
class SequenceKey:
    idx: int

    def __str__(self) -> str:
        return f'[{self.idx}]'


@dataclasses.dataclass(frozen=True, slots=True)
class GetAttrKey:
    name: str

    def __str__(self) -> str:
        return f'.{self.name}'


@dataclasses.dataclass(frozen=True, slots=True)
class FlattenedIndexKey:
    """The place of a child in a registered class that does not name its children."""

    key: int

    def __str__(self) -> str:
        return f'[<flat index {self.key}>]'


KeyEntry = DictKey | SequenceKey | GetAttrKey | FlattenedIndexKey
KeyPath = tuple[Any, ...]


# --- taking apart, putting together ---

def flatten(tree: Any, is_leaf: IsLeaf = None) -> tuple[list[Any], PyTreeDef]:
    """The leaves, left to right, and the structure that `unflatten` needs."""
    return optree.tree_flatten(tree, is_leaf, namespace=_NAMESPACE)


def unflatten(treedef: PyTreeDef, leaves: Iterable[Any]) -> Any:
    """The tree of this structure with these leaves."""
    return optree.tree_unflatten(treedef, leaves)


def leaves(tree: Any, is_leaf: IsLeaf = None) -> list[Any]:
    """The leaves, left to right."""
    return optree.tree_leaves(tree, is_leaf, namespace=_NAMESPACE)


def structure(tree: Any, is_leaf: IsLeaf = None) -> PyTreeDef:
    """The structure: equal for trees that differ in their leaves alone."""
    return optree.tree_structure(tree, is_leaf, namespace=_NAMESPACE)


def map(f: Callable[..., Any], tree: Any, *rest: Any, is_leaf: IsLeaf = None) -> Any:
    """`f` of corresponding leaves. Where `tree` has a leaf, another tree may have a subtree, which `f` gets whole."""
    if not rest:
        return optree.tree_map(f, tree, is_leaf=is_leaf, namespace=_NAMESPACE)
    first, treedef = flatten(tree, is_leaf)
    columns = [flatten_up_to(tree, other, is_leaf) for other in rest]
    return treedef.unflatten([f(*row) for row in zip(first, *columns, strict=True)])


def all(tree: Any, *, is_leaf: IsLeaf = None) -> bool:
    """Whether every leaf is true."""
    return optree.tree_all(tree, is_leaf=is_leaf, namespace=_NAMESPACE)


_NOTHING = object()


def reduce(f: Callable[[Any, Any], Any], tree: Any, initializer: Any = _NOTHING, is_leaf: IsLeaf = None) -> Any:
    """The leaves folded into one value, left to right."""
    start = () if initializer is _NOTHING else (initializer,)
    return functools.reduce(f, leaves(tree, is_leaf), *start)


def transpose(outer: PyTreeDef, inner: PyTreeDef | None, tree: Any) -> Any:
    """A tree turned inside out: an `outer` of `inner`s becomes an `inner` of `outer`s."""
    branches = outer.flatten_up_to(tree)
    inner = structure(branches[0]) if inner is None else inner
    columns = [inner.flatten_up_to(branch) for branch in branches]
    return inner.unflatten([outer.unflatten(list(row)) for row in zip(*columns, strict=True)])


def all_leaves(iterable: Iterable[Any], is_leaf: IsLeaf = None) -> bool:
    """Whether each of some objects is a leaf."""
    return optree.all_leaves(iterable, is_leaf, namespace=_NAMESPACE)


def treedef_is_leaf(treedef: PyTreeDef) -> bool:
    """Whether a structure is that of a leaf."""
    return treedef.is_leaf()


def treedef_children(treedef: PyTreeDef) -> list[PyTreeDef]:
    """The structures of what a container holds."""
    return treedef.children()


def treedef_tuple(treedefs: Iterable[PyTreeDef]) -> PyTreeDef:
    """The structure of a tuple of trees of these structures."""
    return optree.treespec_tuple(treedefs, namespace=_NAMESPACE)


def static(**kwargs: Any) -> Any:
    """A field of a dataclass that belongs to the structure: `dataclasses.field` that `register_dataclass` keeps out of the leaves."""
    return dataclasses.field(metadata={**kwargs.pop('metadata', {}), 'static': True}, **kwargs)


# --- paths ---

def flatten_with_path(tree: Any, is_leaf: IsLeaf = None) -> tuple[list[tuple[KeyPath, Any]], PyTreeDef]:
    """As `flatten`, with the path of each leaf."""
    accessors, found, treedef = optree.tree_flatten_with_accessor(tree, is_leaf, namespace=_NAMESPACE)
    return [(_path(accessor), leaf) for accessor, leaf in zip(accessors, found, strict=True)], treedef


def leaves_with_path(tree: Any, is_leaf: IsLeaf = None) -> list[tuple[KeyPath, Any]]:
    """The leaves with their paths."""
    return flatten_with_path(tree, is_leaf)[0]


def map_with_path(f: Callable[..., Any], tree: Any, *rest: Any, is_leaf: IsLeaf = None) -> Any:
    """As `map`, where `f` also gets the path, first."""
    found, treedef = flatten_with_path(tree, is_leaf)
    columns = [flatten_up_to(tree, other, is_leaf) for other in rest]
    return treedef.unflatten([f(path, leaf, *row) for (path, leaf), *row in zip(found, *columns, strict=True)])


def keystr(path: KeyPath, *, simple: bool = False, separator: str = '') -> str:
    """A path as text: `['w'][0]`, or, simple and with separator '/', `w/0`."""
    return separator.join(str(dataclasses.astuple(key)[0]) if simple else str(key) for key in path)


def _path(accessor: Iterable[optree.PyTreeEntry]) -> KeyPath:
    return tuple(_key(entry) for entry in accessor)


def _key(entry: optree.PyTreeEntry) -> Any:
    if isinstance(entry.entry, KeyEntry):
        return entry.entry  # a registered class named its children
    if isinstance(entry, optree.NamedTupleEntry):
        return GetAttrKey(entry.field)
    if isinstance(entry, optree.MappingEntry):
        return DictKey(entry.entry)
    return SequenceKey(entry.entry) if isinstance(entry, optree.SequenceEntry) else FlattenedIndexKey(entry.entry)


# --- one tree as the beginning of another ---

def flatten_up_to(prefix: Any, tree: Any, is_leaf: IsLeaf = None, what: str = 'tree') -> list[Any]:
    """The subtrees of `tree` that stand where `prefix` has its leaves. `what` names `tree` in the message."""
    treedef = structure(prefix, is_leaf)
    try:
        return treedef.flatten_up_to(tree)
    except ValueError as error:
        path, wanted, found = difference(prefix, tree, is_leaf) or ((), str(treedef), str(error))
        place = f'at {what}{keystr(path)}' if path else f'at the root of {what}'
        raise TreeMismatchError(f'two pytrees do not match {place}: expected {wanted}, found {found}') from None


def broadcast_prefix(prefix: Any, tree: Any, is_leaf: IsLeaf = None, what: str = 'tree') -> list[Any]:
    """For every leaf of `tree`, the leaf of `prefix` that stands at it or above it."""
    subtrees = flatten_up_to(prefix, tree, is_leaf, what)
    pairs = zip(leaves(prefix, is_leaf), subtrees, strict=True)
    return [leaf for leaf, subtree in pairs for _ in leaves(subtree)]


def broadcast(prefix: Any, tree: Any, is_leaf: IsLeaf = None) -> Any:
    """A tree of the structure of `tree` whose leaves are those of `prefix`, repeated."""
    return structure(tree).unflatten(broadcast_prefix(prefix, tree, is_leaf))


def difference(prefix: Any, tree: Any, is_leaf: IsLeaf = None) -> tuple[KeyPath, str, str] | None:
    """Where `tree` first differs from `prefix`: the path, what stands there in `prefix`, and what in `tree`."""
    if optree.tree_is_leaf(prefix, is_leaf, namespace=_NAMESPACE):
        return None
    mine, theirs = _one_level(prefix), _one_level(tree)
    if theirs is None or _form(prefix, mine) != _form(tree, theirs):
        return (), _describe(prefix, mine), _describe(tree, theirs)
    for entry, child, other in zip(mine.entries, mine.children, theirs.children, strict=True):
        below = difference(child, other, is_leaf)
        if below is not None:
            key = _key(mine.path_entry_type(entry, mine.type, mine.kind))
            return (key, *below[0]), below[1], below[2]
    return None


def _one_level(tree: Any) -> Any:
    """A node's children and their entries, or None if it is a leaf."""
    if optree.tree_is_leaf(tree, namespace=_NAMESPACE):
        return None
    return optree.tree_flatten_one_level(tree, namespace=_NAMESPACE)


def _form(node: Any, level: Any) -> tuple[Any, ...]:
    """What two nodes must share to match: any dict matches any other, a registered class has to agree in its data."""
    if level.kind == optree.PyTreeKind.CUSTOM:
        return level.type, len(level.children), level.metadata
    return (dict, set(level.entries)) if isinstance(node, dict) else (level.type, len(level.children))


def _describe(node: Any, level: Any) -> str:
    if node is None:
        return 'None'
    if level is None:
        return f'a leaf of type {type(node).__name__}'
    if isinstance(node, dict):
        return f'a dict with keys {", ".join(repr(key) for key in level.entries) or "none"}'
    data = f' with data {level.metadata!r}' if level.kind == optree.PyTreeKind.CUSTOM else ''
    return f'a {level.type.__name__} of {len(level.children)}{data}'


# --- classes of the user's as containers ---

Flatten = Callable[[T], tuple[Iterable[Any], Hashable]]
FlattenWithKeys = Callable[[T], tuple[Iterable[tuple[Any, Any]], Hashable]]
Unflatten = Callable[[Any, Iterable[Any]], T]


def register_pytree_node(cls: type[T], flatten: Flatten[T] | None, unflatten: Unflatten[T],
                         flatten_with_keys: FlattenWithKeys[T] | None = None) -> None:
    """Make a class a container: `flatten(x) -> (children, data)`, `unflatten(data, children) -> x`.

    `data` belongs to the structure, so it must be hashable and comparable. `flatten_with_keys`, which gives pairs of
    key and child, lets paths name the children.
    """
    def apart(x: T) -> tuple[Any, ...]:
        if flatten_with_keys is None:
            children, data = flatten(x)
            return tuple(children), data
        pairs, data = flatten_with_keys(x)
        keys, children = zip(*pairs, strict=True) if (pairs := tuple(pairs)) else ((), ())
        return children, data, keys

    optree.register_pytree_node(cls, apart, unflatten, namespace=_NAMESPACE)


def register_pytree_with_keys(cls: type[T], flatten_with_keys: FlattenWithKeys[T], unflatten: Unflatten[T],
                              flatten: Flatten[T] | None = None) -> None:
    """As `register_pytree_node`, for a class whose children have names."""
    register_pytree_node(cls, flatten, unflatten, flatten_with_keys)


def register_pytree_node_class(cls: type[T]) -> type[T]:
    """Class decorator: the class has a method `tree_flatten` and a class method `tree_unflatten`."""
    register_pytree_node(cls, lambda x: x.tree_flatten(), cls.tree_unflatten)
    return cls


def register_pytree_with_keys_class(cls: type[T]) -> type[T]:
    """Class decorator: the class has a method `tree_flatten_with_keys` and a class method `tree_unflatten`."""
    register_pytree_node(cls, None, cls.tree_unflatten, lambda x: x.tree_flatten_with_keys())
    return cls


def register_static(cls: type[T]) -> type[T]:
    """Class decorator: instances are part of the structure, and hold no leaf. They must be hashable."""
    register_pytree_node(cls, lambda x: ((), x), lambda x, _: x)
    return cls


def register_dataclass(cls: type[T] | None = None, data_fields: Sequence[str] | None = None,
                       meta_fields: Sequence[str] | None = None, drop_fields: Sequence[str] = ()) -> Any:
    """Make a dataclass a container: its `data_fields` are children, its `meta_fields` belong to the structure.

    Without these lists, fields made with `field(metadata=dict(static=True))` are meta and the others data. Also a class
    decorator, with or without arguments.
    """
    if cls is None:
        return functools.partial(register_dataclass, data_fields=data_fields, meta_fields=meta_fields,
                                 drop_fields=drop_fields)
    if (data_fields is None) != (meta_fields is None):
        raise TypeError('register_dataclass takes data_fields and meta_fields together, or neither')
    if data_fields is None:
        if not dataclasses.is_dataclass(cls):
            raise TypeError(f'{cls.__name__} is no dataclass: register_dataclass needs data_fields and meta_fields')
        fields = [f for f in dataclasses.fields(cls) if f.init and f.name not in drop_fields]
        meta_fields = [f.name for f in fields if f.metadata.get('static', False)]
        data_fields = [f.name for f in fields if f.name not in meta_fields]
    elif dataclasses.is_dataclass(cls):
        _check_fields(cls, {*data_fields, *meta_fields, *drop_fields})
    data, meta = tuple(data_fields), tuple(meta_fields)
    keys = [GetAttrKey(name) for name in data]

    def apart(x: Any) -> tuple[list[tuple[GetAttrKey, Any]], tuple[Any, ...]]:
        pairs = [(key, getattr(x, name)) for key, name in zip(keys, data, strict=True)]
        return pairs, tuple(getattr(x, name) for name in meta)

    def together(held: tuple[Any, ...], children: Iterable[Any]) -> Any:
        return cls(**dict(zip(data, children, strict=True)), **dict(zip(meta, held, strict=True)))

    register_pytree_node(cls, None, together, apart)
    return cls


def _check_fields(cls: type, named: set[str]) -> None:
    fields = {f.name for f in dataclasses.fields(cls) if f.init}
    if fields != named:
        raise ValueError(f'register_dataclass of {cls.__name__} has to place every field: '
                         f'left out {sorted(fields - named)}, unknown {sorted(named - fields)}')


class Partial(functools.partial):
    """`functools.partial` as a container: the bound arguments are leaves, the function belongs to the structure."""


register_pytree_node(Partial, lambda p: ((p.args, p.keywords), p.func),
                     lambda func, children: Partial(func, *children[0], **children[1]))
