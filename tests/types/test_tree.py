"""Pytrees: nodes and leaves, paths, prefixes, and messages that name the place where two trees part."""

import collections
import dataclasses
import functools
import operator

import pytest

from distad import tree
from distad.errors import TreeMismatchError

Pair = collections.namedtuple('Pair', 'left right')


@tree.register_dataclass
@dataclasses.dataclass
class Layer:
    weight: object
    bias: object
    width: int = dataclasses.field(default=3, metadata={'static': True})


@tree.register_pytree_node_class
class Box:
    def __init__(self, *held, label=''):
        self.held, self.label = held, label

    def tree_flatten(self):
        return self.held, self.label

    @classmethod
    def tree_unflatten(cls, label, held):
        return cls(*held, label=label)


@tree.register_pytree_with_keys_class
class Named:
    def __init__(self, a, b):
        self.a, self.b = a, b

    def tree_flatten_with_keys(self):
        return ((tree.GetAttrKey('a'), self.a), (tree.DictKey('b'), self.b)), None

    @classmethod
    def tree_unflatten(cls, _, children):
        return cls(*children)


@tree.register_static
@dataclasses.dataclass(frozen=True)
class Constant:
    value: int


TREE = {'b': [1, Layer(2, {'z': 3})], 'a': Pair(4, None), 'c': (), 'd': Box(5, (6,), label='x')}


def is_none(x):
    return x is None


def test_leaves_in_order_of_sorted_keys():
    assert tree.leaves(TREE) == [4, 1, 2, 3, 5, 6]
    assert tree.leaves(7) == [7] and tree.leaves(None) == [] and tree.leaves([None, {'k': None}]) == []
    assert tree.leaves(Constant(3)) == []
    assert tree.leaves([1, None], is_leaf=is_none) == [1, None]


def test_round_trip():
    leaves, treedef = tree.flatten(TREE)
    assert treedef == tree.structure(TREE) and treedef.num_leaves == len(leaves) == 6
    again = tree.unflatten(treedef, [10 * x for x in leaves])
    assert again['a'] == Pair(40, None) and again['b'][1] == Layer(20, {'z': 30}, 3) and again['d'].label == 'x'
    ordered = collections.OrderedDict([('z', 1), ('y', 2)])
    assert tree.leaves(ordered) == [1, 2] and list(tree.map(operator.neg, ordered)) == ['z', 'y']


def test_structures_compare():
    assert tree.structure([1, 2]) == tree.structure([3, 'x']) != tree.structure((1, 2))
    assert tree.structure(Layer(1, 2, 3)) != tree.structure(Layer(1, 2, 4))
    assert tree.structure(Constant(1)) != tree.structure(Constant(2))


def test_map():
    assert tree.map(operator.add, {'a': 1, 'b': (2, None)}, {'a': 10, 'b': (20, None)}) == {'a': 11, 'b': (22, None)}
    assert tree.map(lambda x, y: (x, y), [1, 2], [{'k': 3}, (4, 5)]) == [(1, {'k': 3}), (2, (4, 5))]
    assert tree.map(lambda x, y: y, [1, None], [3, None]) == [3, None]
    assert tree.map(lambda x, y: (x, y), [None, 1], [2, 3], is_leaf=is_none) == [(None, 2), (1, 3)]


def test_reduce_and_all():
    assert tree.reduce(operator.add, TREE) == 21 and tree.reduce(operator.mul, [2, 3], 10) == 60
    assert tree.all([True, {'a': 1}]) and not tree.all([True, [False]]) and tree.all(())


def test_transpose():
    outer, inner = tree.structure([0, 0]), tree.structure({'a': 0, 'b': 0})
    rows = [{'a': 1, 'b': 2}, {'a': 3, 'b': 4}]
    assert tree.transpose(outer, inner, rows) == tree.transpose(outer, None, rows) == {'a': [1, 3], 'b': [2, 4]}


def test_paths():
    found = [tree.keystr(path) for path, _ in tree.leaves_with_path(TREE)]
    assert found == ["['a'].left", "['b'][0]", "['b'][1].weight", "['b'][1].bias['z']",
                     "['d'][<flat index 0>]", "['d'][<flat index 1>][0]"]
    assert [tree.keystr(path) for path, _ in tree.leaves_with_path(Named(1, 2))] == ['.a', "['b']"]
    (path, leaf), = tree.leaves_with_path({'w': [7]})
    assert path == (tree.DictKey('w'), tree.SequenceKey(0)) and leaf == 7
    assert tree.keystr(path, simple=True, separator='/') == 'w/0'
    assert tree.map_with_path(lambda p, x, y: tree.keystr(p) + str(x + y), [1, 2], [3, 4]) == ['[0]4', '[1]6']


@pytest.mark.parametrize('other, words', [
    (3, "at the root of tree: expected a dict with keys 'a', 'b', found a leaf of type int"),
    ({'b': [1, 2]}, "at the root of tree: .* found a dict with keys 'b'"),
    ({'b': 1, 'a': Pair(4, None)}, r"at tree\['b'\]: expected a list of 2, found a leaf of type int"),
    ({'b': (1, 2), 'a': Pair(4, None)}, r"at tree\['b'\]: expected a list of 2, found a tuple of 2"),
    ({'b': [1], 'a': Pair(4, None)}, r"at tree\['b'\]: expected a list of 2, found a list of 1"),
    ({'b': [1, Layer(1, 2)], 'a': Pair(4, 5)}, r"at tree\['a'\].right: expected None, found a leaf of type int"),
    ({'b': [1, None], 'a': Pair(4, None)}, r"at tree\['b'\]\[1\]: expected a Layer of 2 .*, found None"),
    ({'b': [1, Layer(1, 2, 9)], 'a': Pair(4, None)}, r'a Layer of 2 with data \(3,\), found .* data \(9,\)'),
])
def test_mismatch_names_the_path(other, words):
    mine = {'b': [1, Layer(2, 3)], 'a': Pair(4, None)}
    for attempt in (lambda: tree.map(operator.add, mine, other), lambda: tree.broadcast_prefix(mine, other)):
        with pytest.raises(TreeMismatchError, match=words) as caught:
            attempt()
    assert isinstance(caught.value, ValueError)


def test_mismatch_names_what_does_not_match():
    with pytest.raises(ValueError, match=r'at in_axes\[1\]: expected a tuple of 1'):
        tree.broadcast_prefix((0, (0,)), (1, 2), what='in_axes')


def test_prefixes():
    whole = ((1, 2), 5, {'k': 3, 'l': None})
    assert tree.broadcast_prefix((0, None, 2), whole, is_leaf=is_none) == [0, 0, None, 2]
    assert tree.broadcast_prefix('p', whole) == ['p'] * 4
    assert tree.broadcast(('a', 'b', 'c'), whole) == (('a', 'a'), 'b', {'k': 'c', 'l': None})
    assert tree.difference((0, 0, 0), whole) is None


def test_register_pytree_node_by_functions():
    class Bag:
        def __init__(self, items):
            self.items = items

    tree.register_pytree_node(Bag, lambda bag: (bag.items, None), lambda _, items: Bag(list(items)))
    assert tree.map(operator.neg, Bag([1, (2,)])).items == [-1, (-2,)]
    with pytest.raises(ValueError):
        tree.register_pytree_node(Bag, lambda bag: (bag.items, None), lambda _, items: Bag(list(items)))


def test_register_dataclass_with_lists():
    @functools.partial(tree.register_dataclass, data_fields=['x'], meta_fields=['name'])
    @dataclasses.dataclass
    class Point:
        x: object
        name: str

    assert tree.leaves(Point(1, 'a')) == [1] and tree.map(operator.neg, Point(1, 'a')) == Point(-1, 'a')
    with pytest.raises(ValueError, match=r"left out \['name'\]"):
        tree.register_dataclass(dataclasses.make_dataclass('Q', ['x', 'name']), ['x'], [])
    with pytest.raises(TypeError, match='no dataclass'):
        tree.register_dataclass(type('R', (), {}))
    with pytest.raises(TypeError, match='together'):
        tree.register_dataclass(Point, ['x'])


def test_partial_is_a_tree_of_its_arguments():
    bound = tree.Partial(pow, 2, mod=5)
    assert tree.leaves(bound) == [2, 5] and bound(3) == 3
    assert tree.map(lambda x: x + 1, bound)(3) == pow(3, 3, 6)
    assert tree.structure(bound) == tree.structure(tree.Partial(pow, 7, mod=8))
    assert tree.structure(bound) != tree.structure(tree.Partial(max, 7, mod=8))
