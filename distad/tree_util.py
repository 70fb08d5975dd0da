"""Pytrees under the names of jax.tree_util: those of `distad.tree` with `tree_` in front."""

from distad.tree import (
    DictKey,
    FlattenedIndexKey,
    GetAttrKey,
    KeyEntry,
    KeyPath,
    Partial,
    PyTreeDef,
    SequenceKey,
    all_leaves,
    keystr,
    register_dataclass,
    register_pytree_node,
    register_pytree_node_class,
    register_pytree_with_keys,
    register_pytree_with_keys_class,
    register_static,
    treedef_children,
    treedef_is_leaf,
    treedef_tuple,
)
from distad.tree import all as tree_all
from distad.tree import broadcast as tree_broadcast
from distad.tree import flatten as tree_flatten
from distad.tree import flatten_with_path as tree_flatten_with_path
from distad.tree import leaves as tree_leaves
from distad.tree import leaves_with_path as tree_leaves_with_path
from distad.tree import map as tree_map
from distad.tree import map_with_path as tree_map_with_path
from distad.tree import reduce as tree_reduce
from distad.tree import structure as tree_structure
from distad.tree import transpose as tree_transpose
from distad.tree import unflatten as tree_unflatten

__all__ = ['DictKey', 'FlattenedIndexKey', 'GetAttrKey', 'KeyEntry', 'KeyPath', 'Partial', 'PyTreeDef', 'SequenceKey', 'all_leaves',
           'keystr', 'register_dataclass', 'register_pytree_node', 'register_pytree_node_class', 'register_pytree_with_keys',
           'register_pytree_with_keys_class', 'register_static', 'tree_all', 'tree_broadcast', 'tree_flatten',
           'tree_flatten_with_path', 'tree_leaves', 'tree_leaves_with_path', 'tree_map', 'tree_map_with_path', 'tree_reduce',
           'tree_structure', 'tree_transpose', 'tree_unflatten', 'treedef_children', 'treedef_is_leaf', 'treedef_tuple']
