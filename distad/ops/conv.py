"""conv_general_dilated: sums of products of an array and a kernel that is moved over it. It is linear in each, and both of its
transposes are convolutions again.

It is a dot with windows: dimensions are shared by both operands, free in one of them, or summed, as in a dot; besides, both have
dimensions of space, along which one is moved over the other. So a batch and features go as in a dot, in any number, also under vmap;
groups of features are a shared dimension; and the gradient of a weight is unreduced over what splits the batch. The dimensions of space
have to be whole; `lax.convolution` exchanges borders where they are not.
"""

from typing import NamedTuple

import numpy as np

from distad.core.batching import behind
from distad.core.primitive import BY_LINEARITY, Place, Primitive, by_labels, signature
from distad.core.value import typeof
from distad.ops import conv_kernel
from distad.ops.contraction import widened
from distad.ops.gemm import work_dtype
from distad.ops.makers import NUMBER, check_dtype
from distad.ops.shape import rev
from distad.ops.strided import Along, dilated
from distad.types import dtypes
from distad.types.array_type import ArrayType
from distad.types.inference import BILINEAR, Signature, show

Dims = tuple[int, ...]


class ConvDimensionNumbers(NamedTuple):
    """Where the dimensions of a convolution are: (batch, features, space...) of the array and of the result, (features out, features
    in, space...) of the kernel."""

    lhs_spec: Dims
    rhs_spec: Dims
    out_spec: Dims


class Operand(NamedTuple):
    """What the dimensions of an operand are. `shared`, `summed` and `space` stand in the order of those of the other operand."""

    shared: Dims
    free: Dims
    summed: Dims
    space: Dims


class Result(NamedTuple):
    """What the dimensions of the result are: those that the operands share, those that are free in one of them, and space."""

    shared: Dims
    left: Dims
    right: Dims
    space: Dims


class ConvDims(NamedTuple):
    """What all dimensions are."""

    lhs: Operand
    rhs: Operand
    out: Result


def windows_along(kernel: Dims, space: Dims, params: dict) -> list[Along]:
    """The windows along each dimension of space, for a kernel of this shape."""
    return [Along(window=kernel[d], stride=s, padding=p, base_dilation=ld, window_dilation=rd) for d, s, p, ld, rd in zip(
        space, params['window_strides'], params['padding'], params['lhs_dilation'], params['rhs_dilation'], strict=True)]


def conv_labels(x: ArrayType, w: ArrayType, *, dims: ConvDims, **params) -> Signature:
    """As of a dot; dimensions of space have to be whole."""
    lhs, rhs, out = dims
    ins = [_laid(t.ndim, g=of.shared, c=of.summed, **{own: of.free}) for t, of, own in ((x, lhs, 'n'), (w, rhs, 'o'))]
    return signature('conv_general_dilated', ins, [_laid(sum(map(len, out)), g=out.shared, n=out.left, o=out.right)],
                     linearity=BILINEAR, reducer='sum')


def _laid(ndim: int, **names: Dims) -> list:
    found = {d: (letter, k) for letter, dims in names.items() for k, d in enumerate(dims)}
    return [found.get(d) for d in range(ndim)]


def conv_shape(x: ArrayType, w: ArrayType, *, dims: ConvDims, **params) -> tuple[Dims, np.dtype]:
    """Shape and dtype of the result; operands that do not fit raise TypeError."""
    check_dtype('conv_general_dilated', NUMBER, x, w)
    lhs, rhs, out = dims
    for what, dx, dw in (('features', lhs.summed, rhs.summed), ('groups', lhs.shared, rhs.shared)):
        if [x.shape[d] for d in dx] != [w.shape[d] for d in dw]:
            raise TypeError(f"conv_general_dilated: array and kernel have to have the same {what}, got dimensions {list(dx)} and "
                            f"{list(dw)} of {show((x, w))}")
    dtype = params['preferred_element_type'] or x.dtype
    if dtype.kind in 'biu' and x.dtype.kind not in 'biu' or x.dtype.kind == 'c' and dtype.kind != 'c':
        raise TypeError(f"conv_general_dilated cannot give {dtypes.name(dtype)} as asked for by preferred_element_type, got "
                        f"{show((x, w))}")
    sizes = dict(zip((*out.shared, *out.left, *out.right),
                     (*(x.shape[d] for d in (*lhs.shared, *lhs.free)), *(w.shape[d] for d in rhs.free)), strict=True))
    for d, dx, along in zip(out.space, lhs.space, windows_along(w.shape, rhs.space, params), strict=True):
        sizes[d] = along.count(x.shape[dx])
    return tuple(sizes[d] for d in range(len(sizes))), dtype


def _kernel(place: Place, ins, outs, params):
    (x, w), out, dims = map(place.out, ins), place.out(outs[0]), params['dims']
    return conv_kernel.kernel(x.shape, w.shape, out.shape, dims, windows_along(w.shape, dims.rhs.space, params),
                              work_dtype(x.dtype, out.dtype), out.dtype)


# ---- transposes

def _transpose_x(ct, x, w, *, window_strides, padding, lhs_dilation, rhs_dilation, dims: ConvDims, preferred_element_type):
    """The kernel turned round and moved over the cotangent; what is free in the kernel is summed, and what was summed free."""
    lhs, rhs, out = dims
    ct, w = widened(ct, w)
    around = []
    for dx, dw, do, ld, rd, s, (low, _) in zip(lhs.space, rhs.space, out.space, lhs_dilation, rhs_dilation, window_strides, padding,
                                               strict=True):
        reach = dilated(typeof(w).shape[dw], rd)
        before = reach - 1 - low
        around.append((before, dilated(x.type.shape[dx], ld) + reach - 1 - dilated(typeof(ct).shape[do], s) - before))
    back = ConvDims(Operand(out.shared, out.left, out.right, out.space), Operand(rhs.shared, rhs.summed, rhs.free, rhs.space),
                    Result(lhs.shared, lhs.free, lhs.summed, lhs.space))
    return conv_general_dilated(ct, rev(w, dimensions=tuple(sorted(rhs.space))), window_strides=lhs_dilation, padding=tuple(around),
                                lhs_dilation=window_strides, rhs_dilation=rhs_dilation, dims=back,
                                preferred_element_type=x.type.dtype)


def _transpose_w(ct, x, w, *, window_strides, padding, lhs_dilation, rhs_dilation, dims: ConvDims, preferred_element_type):
    """The cotangent moved over the array, as a kernel; what is free in the array is summed, and what was summed free."""
    lhs, rhs, out = dims
    x, ct = widened(x, ct)
    around = []
    for dx, dw, do, ld, rd, s, (low, _) in zip(lhs.space, rhs.space, out.space, lhs_dilation, rhs_dilation, window_strides, padding,
                                               strict=True):
        reach = dilated(w.type.shape[dw], rd)
        around.append((low, dilated(typeof(ct).shape[do], s) + reach - 1 - dilated(typeof(x).shape[dx], ld) - low))
    back = ConvDims(Operand(lhs.shared, lhs.summed, lhs.free, lhs.space), Operand(out.shared, out.right, out.left, out.space),
                    Result(rhs.shared, rhs.summed, rhs.free, rhs.space))
    return conv_general_dilated(x, ct, window_strides=rhs_dilation, padding=tuple(around), lhs_dilation=lhs_dilation,
                                rhs_dilation=window_strides, dims=back, preferred_element_type=w.type.dtype)


# ---- batches

def _batch(axis, values, places, *, dims: ConvDims, **params):
    """A batch of both is shared, one of either is free there. Nothing is moved or copied."""
    (dx, dw), (lhs, rhs) = places, dims[:2]
    if dx is not None:
        lhs = Operand(*(behind(role, dx) for role in lhs))
    if dw is not None:
        rhs = Operand(*(behind(role, dw) for role in rhs))
    out = Result(*(behind(role, 0) for role in dims.out))
    if dx is not None and dw is not None:
        lhs, rhs = lhs._replace(shared=(dx, *lhs.shared)), rhs._replace(shared=(dw, *rhs.shared))
        out = out._replace(shared=(0, *out.shared))
    elif dx is not None:
        lhs, out = lhs._replace(free=(dx, *lhs.free)), out._replace(left=(0, *out.left))
    else:
        rhs, out = rhs._replace(free=(dw, *rhs.free)), out._replace(right=(0, *out.right))
    return conv_general_dilated(*values, dims=ConvDims(lhs, rhs, out), **params), 0


def _shown(params: dict) -> dict:
    """One with one batch and one sum is written as JAX writes it."""
    dims = params['dims']
    if dims.out.shared or any(len(role) != 1 for of in dims for role in of[1:-1]):
        return params
    numbers = ConvDimensionNumbers(*((*own, *other, *of.space) for of, (own, other) in zip(
        dims, ((dims.lhs.free, dims.lhs.summed), (dims.rhs.free, dims.rhs.summed), (dims.out.left, dims.out.right)), strict=True)))
    return {**{k: v for k, v in params.items() if k != 'dims'}, 'batch_group_count': 1, 'dimension_numbers': numbers,
            'feature_group_count': 1}


conv_general_dilated = Primitive(
    'conv_general_dilated',
    type=by_labels(conv_labels, conv_shape),
    labels=conv_labels,
    kernel=_kernel,
    jvp=BY_LINEARITY,
    transpose=(_transpose_x, _transpose_w),
    batch=_batch,
    linearity=BILINEAR,
    show=_shown)
