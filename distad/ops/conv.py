"""conv_general_dilated: sums of products of an array and a kernel that is moved over it. It is linear in each, and both of its
transposes are convolutions again.

With n for the batch, c and o for features, the dimensions are related as those of a matrix product: [n, c, ...] and [o, c, ...] give
[n, o, ...]. So a split batch and split features go as in a dot, and the gradient of a weight is unreduced over what splits the batch.
Where features (or the batch) come in groups, whole groups may be split. A dimension of space may be split where the kernel is one
element there, or as large as the array, which is a sum as of features; the others have to be whole. `lax.convolution` exchanges borders
where they are not.
"""

import math
from typing import NamedTuple

import numpy as np

from distad.core.batching import behind
from distad.core.primitive import BY_LINEARITY, Place, Primitive, by_labels, signature
from distad.core.value import typeof
from distad.ops import conv_kernel
from distad.ops.broadcast import expand_dims
from distad.ops.contraction import widened
from distad.ops.gemm import work_dtype
from distad.ops.makers import NUMBER, check_dtype
from distad.ops.reshape import reshape
from distad.ops.shape import rev, transpose
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


def windows_along(kernel: Dims, params: dict) -> list[Along]:
    """The windows along each dimension of space, for a kernel of this shape."""
    sizes = [kernel[d] for d in params['dimension_numbers'].rhs_spec[2:]]
    return [Along(window=k, stride=s, padding=p, base_dilation=ld, window_dilation=rd) for k, s, p, ld, rd in zip(
        sizes, params['window_strides'], params['padding'], params['lhs_dilation'], params['rhs_dilation'], strict=True)]


def conv_labels(x: ArrayType, w: ArrayType, **params) -> Signature:
    """Batch and features as in a matrix product; groups, if there are some, are split as a whole."""
    conv_shape(x, w, **params)
    of_x, of_w, of_out = params['dimension_numbers']
    features, batches = params['feature_group_count'], params['batch_group_count']
    batch, out_batch, channel, in_channel, out = 'n', 'n', 'c', 'c', 'o'
    if features > 1:
        channel = out = _group(features, (x, of_x[1]), (w, of_w[0]))
        in_channel = None
    if batches > 1:
        batch = out = _group(batches, (x, of_x[0]), (w, of_w[0]))
        out_batch = None
    space: list[list] = [[], [], []]
    for k, (d, along) in enumerate(zip(of_x[2:], windows_along(w.shape, params), strict=True)):
        covered = along == Along(window=x.shape[d])
        for labels, here in zip(space, (along.idle or covered, covered and not along.idle, along.idle), strict=True):
            labels.append(k if here else None)
    ins = [_laid(of_x, batch, channel, *space[0]), _laid(of_w, out, in_channel, *space[1])]
    return signature('conv_general_dilated', ins, [_laid(of_out, out_batch, out, *space[2])], linearity=BILINEAR, reducer='sum')


def _group(groups: int, *dims: tuple[ArrayType, int]) -> str | None:
    """The label of a dimension of groups: none where a group would be cut."""
    return 'g' if all(groups % t.mesh.axis_size(t.partitions[d]) == 0 for t, d in dims) else None


def _laid(spec: Dims, *labels) -> list:
    """Labels of batch, features and space in the order of the dimensions."""
    return [label for _, label in sorted(zip(spec, labels, strict=True), key=lambda pair: pair[0])]


def conv_shape(x: ArrayType, w: ArrayType, **params) -> tuple[Dims, np.dtype]:
    """Shape and dtype of the result; operands and parameters that do not fit raise."""
    check_dtype('conv_general_dilated', NUMBER, x, w)
    of_x, of_w, of_out = params['dimension_numbers']
    features, batches = params['feature_group_count'], params['batch_group_count']
    n, c, o, i = x.shape[of_x[0]], x.shape[of_x[1]], w.shape[of_w[0]], w.shape[of_w[1]]
    if features < 1 or batches < 1 or features > 1 and batches > 1:
        raise ValueError(f"conv_general_dilated: feature_group_count and batch_group_count are positive and one of them is 1, got "
                         f"{features} and {batches}")
    if c != i * features:
        raise ValueError(f"conv_general_dilated: the array has {c} features and the kernel takes {i} in each of {features} groups, "
                         f"got {show((x, w))}")
    for what, size, groups in (('features out', o, features), ('features out', o, batches), ('batch', n, batches)):
        if size % groups:
            raise ValueError(f"conv_general_dilated: {groups} groups do not divide {what} of size {size}, got {show((x, w))}")
    dtype = params['preferred_element_type']
    if dtype is None:
        dtype = x.dtype
    elif dtype.kind in 'biu' and x.dtype.kind not in 'biu' or x.dtype.kind == 'c' and dtype.kind != 'c':
        raise TypeError(f"conv_general_dilated cannot give {dtypes.name(dtype)} as asked for by preferred_element_type, got "
                        f"{show((x, w))}")
    shape = [0] * x.ndim
    shape[of_out[0]], shape[of_out[1]] = n // batches, o
    for d, s, along in zip(of_out[2:], of_x[2:], windows_along(w.shape, params), strict=True):
        shape[d] = along.count(x.shape[s])
    return tuple(shape), dtype


def _kernel(place: Place, ins, outs, params):
    x, w = map(place.out, ins)
    out = place.out(outs[0])
    numbers = params['dimension_numbers']
    whole, mine = ins[1].shape[numbers.rhs_spec[0]] or 1, w.shape[numbers.rhs_spec[0]]
    groups = [params[name] * mine // whole if params[name] > 1 else 1 for name in ('feature_group_count', 'batch_group_count')]
    return conv_kernel.kernel(x.shape, w.shape, out.shape, numbers, windows_along(w.shape, params), *groups,
                              work_dtype(x.dtype, out.dtype), out.dtype)


# ---- transposes

def _regrouped(x, source: int, target: int, groups: int):
    """The groups that dimension `source` begins with, moved to the beginning of dimension `target`."""
    if groups == 1:
        return x
    shape = typeof(x).shape
    order = [d for d in range(len(shape) + 1) if d != source]
    order.insert(target, source)
    return _merged(transpose(_cut(x, source, groups), permutation=tuple(order)), target)


def _transpose_x(ct, x, w, *, window_strides, padding, lhs_dilation, rhs_dilation, dimension_numbers, feature_group_count,
                 batch_group_count, preferred_element_type):
    """The kernel turned round and moved over the cotangent; or the cotangent over the kernel, where that is the larger of the two, or
    where the batch comes in groups, which then are groups of features."""
    of_x, of_w, of_out = dimension_numbers
    groups = max(feature_group_count, batch_group_count)
    ct, w = widened(ct, w)
    turned = (of_w[1], of_w[0], *of_w[2:])
    if batch_group_count > 1 or groups == 1 and 0 < _space(ct, of_out) < _space(w, of_w):
        a, of_a, dilation_a = w, turned, rhs_dilation
        b, of_b, dilation_b, of_y = _regrouped(ct, of_out[1], of_out[0], groups), of_out, window_strides, (of_x[1], of_x[0], *of_x[2:])
    else:
        a, of_a, dilation_a = ct, of_out, window_strides
        b, of_b, dilation_b, of_y = _regrouped(w, of_w[0], of_w[1], groups), turned, rhs_dilation, of_x
    around = []
    for dx, da, db, ld, sa, sb, (low, _) in zip(of_x[2:], of_a[2:], of_b[2:], lhs_dilation, dilation_a, dilation_b, padding,
                                                strict=True):
        reach = dilated(typeof(b).shape[db], sb)
        before = reach - 1 - low
        around.append((before, dilated(x.type.shape[dx], ld) + reach - 1 - dilated(typeof(a).shape[da], sa) - before))
    return conv_general_dilated(a, rev(b, dimensions=tuple(sorted(of_b[2:]))), window_strides=lhs_dilation, padding=tuple(around),
                                lhs_dilation=dilation_a, rhs_dilation=dilation_b,
                                dimension_numbers=ConvDimensionNumbers(of_a, of_b, of_y), feature_group_count=groups,
                                batch_group_count=1, preferred_element_type=x.type.dtype)


def _space(x, spec: Dims) -> int:
    return math.prod(typeof(x).shape[d] for d in spec[2:])


def _transpose_w(ct, x, w, *, window_strides, padding, lhs_dilation, rhs_dilation, dimension_numbers, feature_group_count,
                 batch_group_count, preferred_element_type):
    """The cotangent moved over the array, as a kernel; batch and features change places, for what is summed is the batch."""
    of_x, of_w, of_out = dimension_numbers
    t = typeof(x)
    x, ct = widened(x, ct)
    around = []
    for dx, dw, do, ld, rd, s, (low, _) in zip(of_x[2:], of_w[2:], of_out[2:], lhs_dilation, rhs_dilation, window_strides, padding,
                                               strict=True):
        reach = dilated(w.type.shape[dw], rd)
        around.append((low, dilated(typeof(ct).shape[do], s) + reach - 1 - dilated(t.shape[dx], ld) - low))
    return conv_general_dilated(x, ct, window_strides=rhs_dilation, padding=tuple(around), lhs_dilation=lhs_dilation,
                                rhs_dilation=window_strides, dimension_numbers=ConvDimensionNumbers(
                                    (of_x[1], of_x[0], *of_x[2:]), (of_out[1], of_out[0], *of_out[2:]),
                                    (of_w[1], of_w[0], *of_w[2:])),
                                feature_group_count=batch_group_count, batch_group_count=feature_group_count,
                                preferred_element_type=w.type.dtype)


# ---- batches

def _batch(axis, values, dims, *, window_strides, padding, lhs_dilation, rhs_dilation, dimension_numbers, feature_group_count,
           batch_group_count, preferred_element_type):
    """A batch of arrays is one more dimension of space, where the kernel is one element; one of kernels is more features; one of
    both is more groups."""
    (x, w), (dx, dw) = values, dims
    of_x, of_w, of_out = dimension_numbers
    params = {'window_strides': window_strides, 'padding': padding, 'lhs_dilation': lhs_dilation, 'rhs_dilation': rhs_dilation,
              'preferred_element_type': preferred_element_type}
    counts = {'feature_group_count': feature_group_count, 'batch_group_count': batch_group_count}
    if dw is None:
        ones = {'window_strides': 1, 'padding': (0, 0), 'lhs_dilation': 1, 'rhs_dilation': 1}
        params |= {name: (one, *params[name]) for name, one in ones.items()}
        numbers = ConvDimensionNumbers(*(_with_space(spec, d) for spec, d in ((of_x, dx), (of_w, 0), (of_out, 0))))
        return conv_general_dilated(x, expand_dims(w, (0,)), dimension_numbers=numbers, **counts, **params), 0
    grouped = max(counts.values()) > 1
    if dx is None and not grouped:
        # a split dimension can be merged with others where it is the first of them
        first = bool(axis.axes)
        w = _merged(axis.move(w, dw, of_w[0] + (not first)), of_w[0])
        y = conv_general_dilated(x, w, dimension_numbers=dimension_numbers, **counts, **params)
        return _cut(y, of_out[1], axis.size if first else typeof(y).shape[of_out[1]] // axis.size), of_out[1] + (not first)
    many = 'batch_group_count' if batch_group_count > 1 else 'feature_group_count'
    d = of_x[0] if batch_group_count > 1 else of_x[1]
    x, w = _merged(axis.whole(x, dx, d), d), _merged(axis.move(w, dw, of_w[0]), of_w[0])
    counts[many] *= axis.size
    y = conv_general_dilated(x, w, dimension_numbers=dimension_numbers, **counts, **params)
    return _cut(y, of_out[1], axis.size), of_out[1]


def _with_space(spec: Dims, d: int) -> Dims:
    """The dimensions with one more of space, the first one, at place d."""
    n, c, *space = behind(spec, d)
    return (n, c, d, *space)


def _merged(x, d: int):
    """Dimensions d and d + 1 as one."""
    shape = typeof(x).shape
    return reshape(x, new_sizes=(*shape[:d], shape[d] * shape[d + 1], *shape[d + 2:]))


def _cut(x, d: int, first: int):
    """Dimension d as two, of sizes `first` and the rest."""
    shape = typeof(x).shape
    return reshape(x, new_sizes=(*shape[:d], first, shape[d] // first, *shape[d + 1:]))


conv_general_dilated = Primitive(
    'conv_general_dilated',
    type=by_labels(conv_labels, conv_shape),
    labels=conv_labels,
    kernel=_kernel,
    jvp=BY_LINEARITY,
    transpose=(_transpose_x, _transpose_w),
    batch=_batch,
    linearity=BILINEAR)
