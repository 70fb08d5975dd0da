"""Keys and random bits: functions of a key and of a position in the whole array, so nothing is sent for them.

A key is one element of dtype key<fry>; what is made of an array of keys has the dimensions of the keys first. The bits
of a split array are made split: each rank makes the block it holds, and the numbers are the same on any mesh.
"""

from collections.abc import Callable

import numpy as np

from distad.core.batching import BEFORE_LAST, BROADCASTING, VECTORIZED
from distad.core.primitive import NoRule, Primitive, finish, signature
from distad.errors import ShardingTypeError
from distad.ops.broadcast import Dims
from distad.ops.makers import broadcast_shape, elementwise_labels
from distad.runtime import threefry
from distad.types import dtypes
from distad.types.array_type import ArrayType, axis_state
from distad.types.inference import infer, show
from distad.types.sharding import NamedSharding

_UINT32 = np.dtype(np.uint32)
_NOT_LINEAR = NoRule('keys and bits have no cotangents')
_BITS = {8: np.dtype(np.uint8), 16: np.dtype(np.uint16), 32: _UINT32, 64: np.dtype(np.uint64)}


def _check_keys(name: str, x: ArrayType) -> None:
    if x.dtype != dtypes.KEY:
        raise TypeError(f'{name} takes keys, got {x}. Make one with random.key(seed) or random.wrap_key_data(words).')


def _made(labels: Callable, shape: Callable) -> Callable:
    """A type rule whose result is never weak: a key made from a Python number is a key like any other."""
    def rule(*types: ArrayType, **params) -> ArrayType:
        dims, dtype = shape(*types, **params)
        return finish(infer(labels(*types, **params), types), dims, dtype, ())
    return rule


def _show_impl(params: dict) -> dict:
    return {'impl': 'fry', **params}


# ---- random_seed: keys from integers

def _seed_shape(x: ArrayType):
    if x.dtype.kind not in 'iub':
        raise TypeError(f'random_seed takes integers, got {x}')
    return x.shape, dtypes.KEY


random_seed = Primitive(
    'random_seed',
    type=_made(elementwise_labels('random_seed'), _seed_shape),
    labels=elementwise_labels('random_seed'),
    impl=lambda seed, *, out: threefry.seed(seed),
    jvp=(None,),
    transpose=_NOT_LINEAR,
    batch=BROADCASTING,
    show=_show_impl)


# ---- random_fold_in: a key from a key and a number

def _fold_in_shape(key: ArrayType, data: ArrayType):
    _check_keys('random_fold_in', key)
    if data.dtype != _UINT32:
        raise TypeError(f'random_fold_in takes uint32 data, got {show((key, data))}')
    return broadcast_shape('random_fold_in', (key, data)), dtypes.KEY


random_fold_in = Primitive(
    'random_fold_in',
    type=_made(elementwise_labels('random_fold_in'), _fold_in_shape),
    labels=elementwise_labels('random_fold_in'),
    impl=lambda key, data, *, out: threefry.fold_in(key, data),
    jvp=(None, None),
    transpose=_NOT_LINEAR,
    batch=BROADCASTING)


# ---- random_split and random_bits: new dimensions behind those of the keys

def _made_labels(name: str):
    def labels(key: ArrayType, *, shape: Dims, sharding: NamedSharding | None = None, **params):
        dims = range(key.ndim + len(shape))
        given = {} if sharding is None else {
            key.ndim + d: axes for d, axes in enumerate(ArrayType(shape, key.dtype, sharding=sharding).partitions)}
        return signature(name, [dims[:key.ndim]], [dims], given=given)
    return labels


_bits_labels = _made_labels('random_bits')
_split_labels = _made_labels('random_split')


def _split_shape(key: ArrayType, *, shape: Dims):
    _check_keys('random_split', key)
    return key.shape + shape, dtypes.KEY


random_split = Primitive(
    'random_split',
    type=_made(_split_labels, _split_shape),
    labels=_split_labels,
    impl=lambda key, *, out, shape: threefry.split(key, shape),
    jvp=(None,),
    transpose=_NOT_LINEAR,
    batch=VECTORIZED)


def _bits_type(key: ArrayType, *, bit_width: int, shape: Dims, sharding: NamedSharding | None) -> ArrayType:
    _check_keys('random_bits', key)
    if sharding is None:
        return finish(infer(_bits_labels(key, shape=shape), (key,)), key.shape + shape, _BITS[bit_width], ())
    mesh, spec = sharding.mesh.abstract_mesh, sharding.spec
    if spec.unreduced or spec.reduced:
        raise ShardingTypeError(f'random_bits makes whole or split values, not {spec}. Reshard its result.')
    if not key.mesh.empty and key.mesh != mesh:
        raise ValueError(f'random_bits: the key {key} lies on {key.mesh}, and bits are asked for on {mesh}. Bring the key '
                         'there with device_put.')
    # A key has no cotangent, so beside the split result one that is the same everywhere does as well as a reduced one.
    split = {axis for axes in spec.axes for axis in axes if axis_state(key, axis) == 'N'}
    key = key.update(mesh=mesh, reduced=key.reduced | split)
    labels = _bits_labels(key, shape=shape, sharding=sharding)
    return finish(infer(labels, (key,)), key.shape + shape, _BITS[bit_width], ())


def _bits_impl(key, *, out, bit_width, shape, sharding):
    own = len(out.shape) - len(shape)
    return threefry.bits(key, bit_width, out.shape[own:], out.starts[own:], shape)


def _show_bits(params: dict) -> dict:
    return {'bit_width': params['bit_width'], 'shape': params['shape']}       # the result's type shows how it is split


random_bits = Primitive(
    'random_bits',
    type=_bits_type,
    labels=_bits_labels,
    impl=_bits_impl,
    jvp=(None,),
    transpose=_NOT_LINEAR,
    batch=VECTORIZED,
    show=_show_bits)


# ---- random_wrap and random_unwrap: a key as the two words in a last dimension

def _wrap_labels(x: ArrayType):
    return signature('random_wrap', [[*range(x.ndim - 1), None]], [range(x.ndim - 1)])


def _wrap_shape(x: ArrayType):
    if x.dtype != _UINT32 or not x.ndim or x.shape[-1] != 2:
        raise TypeError(f'random_wrap takes uint32 words with a last dimension of size 2, got {x}')
    return x.shape[:-1], dtypes.KEY


def _wrap_impl(words, *, out):
    return np.ascontiguousarray(words).view(dtypes.KEY)[..., 0]


random_wrap = Primitive(
    'random_wrap',
    type=_made(_wrap_labels, _wrap_shape),
    labels=_wrap_labels,
    impl=_wrap_impl,
    jvp=(None,),
    transpose=_NOT_LINEAR,
    batch=BEFORE_LAST,
    show=_show_impl)


def _unwrap_labels(key: ArrayType):
    return signature('random_unwrap', [range(key.ndim)], [range(key.ndim + 1)])


def _unwrap_shape(key: ArrayType):
    _check_keys('random_unwrap', key)
    return (*key.shape, 2), _UINT32


random_unwrap = Primitive(
    'random_unwrap',
    type=_made(_unwrap_labels, _unwrap_shape),
    labels=_unwrap_labels,
    impl=lambda key, *, out: np.stack([key['hi'], key['lo']], axis=-1),
    jvp=(None,),
    transpose=_NOT_LINEAR,
    batch=VECTORIZED)
