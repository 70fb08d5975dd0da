"""Dtypes: names, and promotion against recorded tables and against the laws of a lattice."""

import itertools

import numpy as np
import pytest

from distad.config import config
from distad.types import dtypes
from distad.types.dtypes import bfloat16, canonical, float0, of_scalar, promote

# Results of binary operations as JAX 0.12 gives them: one row per left operand, the columns as in the first line.
TABLE = """
          bool     int8     uint8    int16    uint16   int32    uint32   float16  bfloat16 float32  complex64
bool      bool     int8     uint8    int16    uint16   int32    uint32   float16  bfloat16 float32  complex64
int8      int8     int8     int16    int16    int32    int32    int32    float16  bfloat16 float32  complex64
uint8     uint8    int16    uint8    int16    uint16   int32    uint32   float16  bfloat16 float32  complex64
int16     int16    int16    int16    int16    int32    int32    int32    float16  bfloat16 float32  complex64
int32     int32    int32    int32    int32    int32    int32    int32    float16  bfloat16 float32  complex64
uint32    uint32   int32    uint32   int32    uint32   int32    uint32   float16  bfloat16 float32  complex64
bfloat16  bfloat16 bfloat16 bfloat16 bfloat16 bfloat16 bfloat16 bfloat16 float32  bfloat16 float32  complex64
float32   float32  float32  float32  float32  float32  float32  float32  float32  float32  float32  complex64
c64     complex64 complex64 complex64 complex64 complex64 complex64 complex64 complex64 complex64 complex64 complex64
"""

# The same with 64-bit types enabled.
TABLE_X64 = """
          int8     int32    int64    uint32   uint64   float16  bfloat16 float32  float64  complex64 complex128
bool      int8     int32    int64    uint32   uint64   float16  bfloat16 float32  float64  complex64 complex128
int8      int8     int32    int64    int64    ~float64 float16  bfloat16 float32  float64  complex64 complex128
int32     int32    int32    int64    int64    ~float64 float16  bfloat16 float32  float64  complex64 complex128
uint32    int64    int64    int64    uint32   uint64   float16  bfloat16 float32  float64  complex64 complex128
uint64    ~float64 ~float64 ~float64 uint64   uint64   float16  bfloat16 float32  float64  complex64 complex128
float16   float16  float16  float16  float16  float16  float16  float32  float32  float64  complex64 complex128
float32   float32  float32  float32  float32  float32  float32  float32  float32  float64  complex64 complex128
float64   float64  float64  float64  float64  float64  float64  float64  float64  float64  complex128 complex128
c64     complex64 complex64 complex64 complex64 complex64 complex64 complex64 complex64 complex128 complex64 complex128
"""

# With a number on the right.
SCALARS = """
          1        1.5      1j          np.float32(1) np.int32(1)
bool      ~int32   ~float32 ~complex64  float32       int32
int8      int8     ~float32 ~complex64  float32       int32
uint8     uint8    ~float32 ~complex64  float32       int32
int32     int32    ~float32 ~complex64  float32       int32
uint32    uint32   ~float32 ~complex64  float32       int32
float16   float16  float16  complex64   float32       float16
bfloat16  bfloat16 bfloat16 complex64   float32       bfloat16
float32   float32  float32  complex64   float32       float32
"""

SCALARS_X64 = """
          1        1.5      1j           np.float32(1) np.int32(1) np.float64(1)
bool      ~int64   ~float64 ~complex128  float32       int32       float64
int8      int8     ~float64 ~complex128  float32       int32       float64
int64     int64    ~float64 ~complex128  float32       int64       float64
uint64    uint64   ~float64 ~complex128  float32       ~float64    float64
bfloat16  bfloat16 bfloat16 complex64    float32       bfloat16    float64
float32   float32  float32  complex64    float32       float32     float64
float64   float64  float64  complex128   float64       float64     float64
"""


def dtype_of(name):
    return bfloat16 if name == 'bfloat16' else np.dtype('complex64' if name == 'c64' else name)


def rows(table):
    head, *lines = [line.split() for line in table.strip('\n').splitlines()]
    return [(left, right, out) for left, *outs in lines for right, out in zip(head, outs, strict=True)]


def printed(dtype, weak):
    return ('~' if weak else '') + dtypes.name(dtype)


@pytest.mark.parametrize('x64, left, right, out', [
    *((False, *row) for row in rows(TABLE)), *((True, *row) for row in rows(TABLE_X64))])
def test_promotes_arrays(x64, left, right, out):
    with config.override(enable_x64=x64):
        operands = [(dtype_of(left), False), (dtype_of(right), False)]
        assert printed(*promote(*operands)) == printed(*promote(*reversed(operands))) == out


@pytest.mark.parametrize('x64, left, number, out', [
    *((False, *row) for row in rows(SCALARS)), *((True, *row) for row in rows(SCALARS_X64))])
def test_promotes_arrays_with_numbers(x64, left, number, out):
    with config.override(enable_x64=x64):
        assert printed(*promote((dtype_of(left), False), of_scalar(eval(number, {'np': np})))) == out


NAMES = ('bool int8 uint8 int16 uint16 int32 uint32 int64 uint64 '
         'float16 bfloat16 float32 float64 complex64 complex128').split()
STRONG = [(dtype_of(name), False) for name in NAMES]


@pytest.fixture
def x64():
    with config.override(enable_x64=True):
        yield


def test_promotion_is_idempotent_and_commutative(x64):
    weak = [of_scalar(1), of_scalar(1.0), of_scalar(1j)]
    for a in STRONG + weak:
        assert promote(a) == promote(a, a) == a
    for a, b in itertools.product(STRONG + weak, repeat=2):
        assert promote(a, b) == promote(b, a)
        assert promote(a, b) == promote(a, promote(a, b)), 'a join absorbs its parts'


def test_promotion_is_associative_among_dtypes(x64):
    # uint64 with a signed integer gives the weak kind of floats, which a third operand may still narrow.
    for a, b, c in itertools.product(STRONG, repeat=3):
        together = promote(a, b, c)
        if not (promote(a, b)[1] or promote(b, c)[1]):
            assert promote(promote(a, b), c) == promote(a, promote(b, c)) == together


def test_order_of_operands_does_not_matter(x64):
    for operands in itertools.combinations(STRONG + [of_scalar(1), of_scalar(1.0)], 3):
        assert len({promote(*order) for order in itertools.permutations(operands)}) == 1


def test_kinds_never_go_down(x64):
    rank = {'b': 0, 'i': 1, 'u': 1, 'f': 2, 'V': 2, 'c': 3}
    for a, b in itertools.product(STRONG, repeat=2):
        assert rank[promote(a, b)[0].kind] >= max(rank[a[0].kind], rank[b[0].kind])


def test_weak_operands_alone_stay_weak():
    assert promote(of_scalar(1), of_scalar(2)) == (np.int32, True)
    assert promote(of_scalar(1), of_scalar(2.0)) == (np.float32, True)
    assert promote((np.dtype('bool'), True), (np.dtype('bool'), True)) == (np.bool_, False)


@pytest.mark.parametrize('x, out, out_x64', [
    (True, 'bool', 'bool'), (3, '~int32', '~int64'), (1.0, '~float32', '~float64'), (1j, '~complex64', '~complex128'),
    (np.float64(1), 'float32', 'float64'), (np.int8(1), 'int8', 'int8'), (np.bool_(1), 'bool', 'bool')])
def test_types_of_numbers(x, out, out_x64):
    assert printed(*of_scalar(x)) == out
    with config.override(enable_x64=True):
        assert printed(*of_scalar(x)) == out_x64


def test_what_is_no_number():
    with pytest.raises(TypeError, match='not a number'):
        of_scalar('1')


@pytest.mark.parametrize('dtype, name, short', [
    ('float32', 'float32', 'f32'), ('float64', 'float64', 'f64'), ('float16', 'float16', 'f16'),
    (bfloat16, 'bfloat16', 'bf16'), ('int8', 'int8', 'i8'), (np.uint32, 'uint32', 'u32'), (bool, 'bool', 'bool'),
    ('complex128', 'complex128', 'c128'), (dtypes.KEY, 'key<fry>', 'key<fry>'), (float0, 'float0', 'float0')])
def test_names(dtype, name, short):
    assert (dtypes.name(dtype), dtypes.short_name(dtype)) == (name, short)


@pytest.mark.parametrize('wide, narrow', [
    ('int64', 'int32'), ('uint64', 'uint32'), ('float64', 'float32'), ('complex128', 'complex64'), ('int8', 'int8'),
    ('>f4', '<f4'), (bfloat16, bfloat16), (dtypes.KEY, dtypes.KEY), (float0, float0)])
def test_canonical(wide, narrow):
    assert canonical(wide) == np.dtype(narrow)
    with config.override(enable_x64=True):
        assert canonical(wide) == np.dtype(wide).newbyteorder('=')


@pytest.mark.parametrize('dtype', [object, 'U3', 'datetime64[s]', np.longdouble])
def test_dtypes_that_arrays_do_not_have(dtype):
    with pytest.raises(TypeError, match='arrays hold'):
        canonical(dtype)


def test_keys_do_not_promote():
    key = (dtypes.KEY, False)
    assert promote(key, key) == key
    with pytest.raises(TypeError, match='key<fry> takes no part'):
        promote(key, (np.dtype('float32'), False))


def test_tangents():
    for dtype in ('float32', bfloat16, 'complex64'):
        assert dtypes.tangent_dtype(dtype) == np.dtype(dtype)
    for dtype in ('int32', 'bool', dtypes.KEY, float0):
        assert dtypes.tangent_dtype(dtype) == float0
    assert dtypes.is_float(bfloat16) and dtypes.is_float('complex64') and not dtypes.is_float('int32')
    assert dtypes.is_complex('complex64') and not dtypes.is_complex('float32')
    assert dtypes.is_integer('uint8') and not dtypes.is_integer(bool)
