"""Operators and methods of arrays and tracers, installed on `Value` in one place."""

from collections.abc import Callable

import numpy as np

from distad import numpy as jnp
from distad.core.lift import read
from distad.core.value import Array, Value
from distad.errors import (
    ConcretizationTypeError,
    TracerArrayConversionError,
    TracerBoolConversionError,
    TracerIntegerConversionError,
)
from distad.lax.placement import addressable_shards
from distad.numpy.at import At
from distad.numpy.known import known
from distad.runtime.blocks import index_of
from distad.runtime.mpi import rank as _rank
from distad.types import dtypes
from distad.types.sharding import NamedSharding

BINARY = {
    'add': 'add', 'sub': 'subtract', 'mul': 'multiply', 'truediv': 'true_divide', 'floordiv': 'floor_divide',
    'mod': 'remainder', 'pow': 'power', 'matmul': 'matmul', 'and': 'bitwise_and', 'or': 'bitwise_or', 'xor': 'bitwise_xor',
    'lshift': 'left_shift', 'rshift': 'right_shift', 'divmod': 'divmod'}
COMPARE = {'eq': 'equal', 'ne': 'not_equal', 'lt': 'less', 'le': 'less_equal', 'gt': 'greater', 'ge': 'greater_equal'}
UNARY = {'neg': 'negative', 'pos': 'positive', 'abs': 'abs', 'invert': 'invert'}
METHODS = ('all', 'any', 'argmax', 'argmin', 'argpartition', 'argsort', 'astype', 'choose', 'clip', 'compress',
           'conj', 'cumprod', 'cumsum', 'diagonal', 'dot', 'flatten', 'max', 'mean', 'min', 'nonzero', 'partition',
           'prod', 'ptp', 'ravel', 'repeat', 'round', 'searchsorted', 'sort', 'squeeze', 'std', 'sum', 'swapaxes',
           'take', 'trace', 'var')
PROPERTIES = {'real': 'real', 'imag': 'imag', 'mT': 'matrix_transpose'}


def install(names) -> None:
    """Give `Value` NumPy's operators and methods, from a module that holds the functions."""
    for op, name in BINARY.items():
        f = getattr(names, name)
        setattr(Value, f"__{op}__", _operator(f))
        setattr(Value, f"__r{op}__", _operator(f, reflected=True))
    for op, name in COMPARE.items():
        setattr(Value, f"__{op}__", _operator(getattr(names, name)))
    for op, name in UNARY.items():
        setattr(Value, f"__{op}__", _method(getattr(names, name)))
    for name in METHODS:
        setattr(Value, name, _method(getattr(names, 'ravel' if name == 'flatten' else name)))
    for name, function in PROPERTIES.items():
        setattr(Value, name, property(_method(getattr(names, function))))
    Value.reshape = lambda self, *shape, **options: names.reshape(self, _one(shape), **options)
    Value.transpose = lambda self, *axes: names.transpose(self, _one(axes) if axes else None)
    Value.T = property(names.transpose)
    Value.__getitem__ = names.getitem
    Value.__iter__ = names.iterate
    Value.at = property(At)


def _operator(f: Callable, reflected: bool = False) -> Callable:
    def method(self, other):
        if not isinstance(other, (Value, np.ndarray, np.generic, bool, int, float, complex)):
            return NotImplemented
        return f(other, self) if reflected else f(self, other)
    return method


def _method(f: Callable) -> Callable:
    return lambda self, *args, **kwargs: f(self, *args, **kwargs)


def _one(args: tuple):
    """`x.reshape(2, 3)` and `x.reshape((2, 3))` mean the same."""
    return args[0] if len(args) == 1 else args


# ---- reading: what Python needs to know now

def _scalar(x: Value, what: str, error: type[Exception]):
    """The one element as a Python number, on which control flow of Python may depend: so it must be the same on all ranks."""
    if x.type.varying:
        over = ', '.join(sorted(x.type.varying))
        raise error(f"{what} of a value of type {x.type}: it differs between the ranks along {over}, and Python that depends on it "
                    "would do another thing on each of them. Choose with jnp.where or lax.cond, or make it the same on all "
                    f"ranks first: lax.psum, pmax or pmin over {over}. To look at this rank's value, print it.")
    array = known(x)
    if array is None:
        raise error(f"{what} of a traced value of type {x.type}: its value is not known while the program is traced. Use "
                    "jnp.where, lax.scan or an argument marked static instead of Python control flow.")
    if what in ('float', 'complex', 'item') and not isinstance(x, Array) and dtypes.is_float(x.dtype):
        raise error(f"{what} of a value of type {x.type} that is being differentiated: a Python number has no derivative, so what is "
                    "computed with it would be dropped from the gradient. Use the value itself; to look at it debug.print, to take it "
                    "as a constant lax.stop_gradient.")
    if x.size != 1:
        raise (ValueError if what == 'bool' else TypeError)(
            f"{what} takes an array of one element, got {x.type}" + ('. Use any() or all().' if what == 'bool' else ''))
    return read(array).reshape(())[()]


def _integer(x: Value) -> int:
    if x.dtype.kind not in 'iub':
        raise TypeError(f"only integer arrays of one element can be an index, got {x.type}")
    return int(_scalar(x, 'int', TracerIntegerConversionError))


def _index(x: Value) -> int:
    if x.ndim or x.dtype.kind not in 'iu':
        raise TypeError(f"only integer scalar arrays can be converted to a scalar index, got {x.type}")
    return _integer(x)


def _array(x: Value, dtype=None, copy=None) -> np.ndarray:
    if not isinstance(x, Array):
        raise TracerArrayConversionError(
            f"NumPy got a traced value of type {x.type}, whose value is not known while a function is transformed. Use "
            "distad.numpy in place of numpy there, or pure_callback.")
    value = read(x)
    converted = value if dtype is None else value.astype(dtype, copy=False)
    if converted is not value:
        return converted
    return value.copy() if copy else value             # one of the caller's own, which may be written to


def _item(x: Value):
    return _scalar(x, 'item', ConcretizationTypeError).item()


def _setitem(x: Value, index, value):
    raise TypeError("distad arrays are immutable and do not support assignment. Instead of x[idx] = y, write "
                    "x = x.at[idx].set(y).")


def _unhashable(x: Value) -> int:
    raise TypeError(f"unhashable type: {type(x).__name__}")


def _text(x: Value, plain: bool) -> str:
    if not isinstance(x, Array):
        return f"{type(x).__name__}<{x.type}>"
    t = x.type
    if x.block is None:
        return f"Array(type={t}, on other ranks of {x.mesh})"
    if t.unreduced or any(t.partitions):
        part = 'this rank\'s summand' if t.unreduced else 'this rank\'s block'
        coords = x.mesh.coords(_rank())
        return (f"Array(type={t}, {part} at {', '.join(f'{a}={i}' for a, i in coords.items())} of "
                f"[{', '.join(f'{s.start}:{s.stop}' for s in index_of(t, coords))}]:\n{np.array2string(x.block)})")
    if plain:
        return str(x.block)
    body = np.array2string(x.block, separator=', ', prefix='Array(')
    return f"Array({body}, dtype={dtypes.name(t.dtype)}{', weak_type=True' if t.weak_type else ''})"


def _sharding(x: Value) -> NamedSharding:
    mesh = getattr(x, 'mesh', None)
    return x.type.sharding if mesh is None else NamedSharding(mesh, x.type.spec)


Value.__bool__ = lambda self: bool(_scalar(self, 'bool', TracerBoolConversionError))
Value.__float__ = lambda self: float(_scalar(self, 'float', ConcretizationTypeError))
Value.__int__ = _integer
Value.__complex__ = lambda self: complex(_scalar(self, 'complex', ConcretizationTypeError))
Value.__index__ = _index
Value.__array__ = _array
Value.__setitem__ = _setitem
Value.__hash__ = _unhashable
Value.__repr__ = lambda self: _text(self, False)
Value.__str__ = lambda self: _text(self, True)
Value.__format__ = lambda self, spec: format(_array(self).item(), spec) if spec else str(self)
Value.item = _item
Value.tolist = lambda self: _array(self).tolist()
Value.sharding = property(_sharding)
Value.is_fully_replicated = property(
    lambda self: not (self.type.unreduced or self.type.varying or any(self.type.partitions)))
Value.is_fully_addressable = property(lambda self: self.type.mesh.empty)
Value.block_until_ready = lambda self: self
Value.copy = lambda self: self
Array.addressable_shards = property(addressable_shards)
Array.addressable_data = lambda self, index=0: addressable_shards(self)[index].data
install(jnp)
