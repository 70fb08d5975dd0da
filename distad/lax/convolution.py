"""Convolutions, also of arrays whose dimensions of space are split."""

from collections.abc import Sequence

from distad.core.lift import as_value
from distad.core.value import Value, typeof
from distad.errors import ShardingTypeError
from distad.lax.borders import bordered, together
from distad.lax.kind import kindly, settle, wanted, whole_along
from distad.lax.shape import Sharding
from distad.lax.slicing import resized, rev
from distad.lax.windows import Pads, padtype_to_pads
from distad.ops.cast import cast
from distad.ops.conv import ConvDimensionNumbers, ConvDims, Operand, Result, windows_along
from distad.ops.conv import conv_general_dilated as conv_p
from distad.ops.reshape import reshape
from distad.ops.strided import dilated
from distad.types import dtypes
from distad.types.inference import show

__all__ = ['ConvDimensionNumbers', 'conv', 'conv_dimension_numbers', 'conv_general_dilated', 'conv_transpose',
           'conv_with_general_padding']


Numbers = ConvDimensionNumbers | Sequence[str] | None


def conv_dimension_numbers(lhs_shape: Sequence[int], rhs_shape: Sequence[int], dimension_numbers: Numbers) -> ConvDimensionNumbers:
    """Where batch, features and space are, from words: ('NHWC', 'HWIO', 'NHWC') names the dimensions of array, kernel and result.

    N is the batch, C are the features, O and I the features out of and into the kernel; other letters are dimensions of space. None
    stands for batch and features first, everywhere.

    >>> conv_dimension_numbers((1, 5, 5, 2), (3, 3, 2, 4), ('NHWC', 'HWIO', 'NHWC'))
    ConvDimensionNumbers(lhs_spec=(0, 3, 1, 2), rhs_spec=(3, 2, 0, 1), out_spec=(0, 3, 1, 2))
    """
    rank = len(lhs_shape)
    if rank < 2 or len(rhs_shape) != rank:
        raise TypeError(f"a convolution takes an array and a kernel of one rank, 2 or more, got shapes {tuple(lhs_shape)} and "
                        f"{tuple(rhs_shape)}")
    if dimension_numbers is None:
        return ConvDimensionNumbers(*(tuple(range(rank)),) * 3)
    if isinstance(dimension_numbers, ConvDimensionNumbers):
        specs = ConvDimensionNumbers(*(tuple(int(d) for d in spec) for spec in dimension_numbers))
        if any(sorted(spec) != list(range(rank)) for spec in specs):
            raise ValueError(f"a convolution of rank {rank} takes permutations of its dimensions, got {specs}")
        return specs
    words = tuple(dimension_numbers)
    if len(words) != 3 or any(not isinstance(word, str) or len(set(word)) != rank or len(word) != rank for word in words):
        raise TypeError(f"dimension_numbers are three words with a letter for each of {rank} dimensions, got {dimension_numbers!r}")
    letters = [set(word) - set(two) for word, two in zip(words, ('NC', 'OI', 'NC'), strict=True)]
    if letters[0] != letters[1] or letters[0] != letters[2] or len(letters[0]) != rank - 2:
        raise ValueError(f"dimension_numbers name batch and features N, C of array and result, O, I of the kernel, and the same "
                         f"dimensions of space in all three, got {dimension_numbers!r}")
    space = [letter for letter in words[1] if letter in letters[1]]
    return ConvDimensionNumbers(*(tuple(word.index(letter) for letter in (*two, *space))
                                  for word, two in zip(words, ('NC', 'OI', 'NC'), strict=True)))


def conv_general_dilated(lhs, rhs, window_strides: Sequence[int], padding: Pads, lhs_dilation: Sequence[int] | None = None,
                         rhs_dilation: Sequence[int] | None = None, dimension_numbers: Numbers = None, feature_group_count: int = 1,
                         batch_group_count: int = 1, precision=None, preferred_element_type=None,
                         out_sharding: Sharding = None) -> Value:
    """Sums of products of an array and a kernel that is moved over it: [n, c, s...] and [o, c, k...] give [n, o, p...].

    Args:
      lhs: [n@X, c, s...], rhs: [o, c, k...], of one dtype; `dimension_numbers` (see `conv_dimension_numbers`) give another order.
      window_strides: steps of the kernel. padding: 'SAME', 'SAME_LOWER', 'VALID' or pairs. lhs_dilation, rhs_dilation: distances
        between the elements of the array, and of the kernel.
      feature_group_count: so many groups of c and of o go with one another; the kernel is [o, c / groups, k...] then.
      batch_group_count: so many groups of n and of o go with one another; the result is [n / groups, o, p...] then.
      precision: accepted and without effect. preferred_element_type: the dtype of the result.
      out_sharding: where the result lies.
    Returns: [n@X, o, p...]; batch, features and space are split as in the operands. With one operand unreduced the result is.
    Communication: the borders of blocks go to the neighbours along a split dimension of space, one message each, or it is gathered
      where blocks and windows do not begin together; one all-reduce of the result where c is split in one operand. A dimension
      whose groups would be cut is gathered. The gradient of a kernel that is replicated beside a split batch takes one all-reduce.
    Raises: ShardingTypeError where c is split in both operands and there is no `out_sharding`, and where a split dimension of space
      does not divide in the result.

    >>> conv_general_dilated(np.ones((1, 1, 4), np.float32), np.ones((1, 1, 3), np.float32), (1,), 'SAME')
    Array([[[2., 3., 3., 2.]]], dtype=float32)
    """
    x, w = as_value(lhs, 'conv_general_dilated'), as_value(rhs, 'conv_general_dilated')
    numbers = conv_dimension_numbers(x.shape, w.shape, dimension_numbers)
    rank = x.ndim - 2
    strides, ld, rd = (_each(name, v, rank) for name, v in (
        ('window_strides', window_strides), ('lhs_dilation', lhs_dilation), ('rhs_dilation', rhs_dilation)))
    if isinstance(padding, str) and padding.upper() != 'VALID' and set(ld) - {1}:
        raise ValueError(f"conv_general_dilated: padding {padding!r} has no one meaning with lhs_dilation {ld}. Give pairs, or use "
                         "conv_transpose.")
    reach = [dilated(w.shape[d], r) for d, r in zip(numbers.rhs_spec[2:], rd, strict=True)]
    pads = padtype_to_pads([x.shape[d] for d in numbers.lhs_spec[2:]], reach, strides, padding)
    dtype = None if preferred_element_type is None else dtypes.canonical(preferred_element_type)
    windows = {'window_strides': strides, 'padding': tuple(pads), 'lhs_dilation': ld, 'rhs_dilation': rd}
    return _convolved(x, w, windows, dtype, numbers, int(feature_group_count), int(batch_group_count), out_sharding)


def _each(name: str, numbers: Sequence[int] | None, rank: int) -> tuple[int, ...]:
    found = (1,) * rank if numbers is None else tuple(int(n) for n in numbers)
    if len(found) != rank or min(found, default=1) < 1:
        raise ValueError(f"conv_general_dilated: {name} has a positive number for each of {rank} dimensions of space, got {numbers}")
    return found


def _convolved(x: Value, w: Value, windows: dict, dtype, numbers: ConvDimensionNumbers, features: int, batches: int,
               out_sharding: Sharding) -> Value:
    of_x, of_w, of_out = numbers
    _check_groups(x, w, numbers, features, batches)
    if out_sharding is None and features == 1:
        _refuse_choice(x, w, numbers)
    alongs = dict(zip(of_x[2:], windows_along(w.shape, of_w[2:], windows), strict=True))
    sizes = {of_out[0]: x.shape[of_x[0]] // batches, of_out[1]: w.shape[of_w[0]]}
    sizes |= {do: along.count(x.shape[d]) for do, (d, along) in zip(of_out[2:], alongs.items(), strict=True)}

    blocks, after, split = bordered(x, alongs, 0)
    kernel = whole_along(w, of_w[2:])
    groups, new_x, new_w, new_out = max(features, batches), list(split), [], [of_out[of_x.index(d)] for d in split]
    if groups > 1:
        grouped = of_x[1] if features > 1 else of_x[0]
        blocks, kernel = _in_groups(blocks, _place(grouped, new_x), groups), _in_groups(kernel, of_w[0], groups)
        new_x, new_w, new_out = [grouped, *new_x], [of_w[0]], [of_out[1], *new_out]
    (n, c, *space_x), (o, i, *space_w), (out_n, out_o, *space_out) = (
        [_place(d, new) for d in spec] for spec, new in ((of_x, new_x), (of_w, new_w), (of_out, new_out)))
    own_x, own_w, own_out = ([_place(d, new) - 1 for d in new] for new in (new_x, new_w, new_out))
    g = int(groups > 1)
    dims = ConvDims(Operand(tuple(own_x[:g]), (n, *own_x[g:]), (c,), tuple(space_x)), Operand(tuple(own_w), (o,), (i,), tuple(space_w)),
                    Result(tuple(own_out[:g]), (out_n, *own_out[g:]), (out_o,), tuple(space_out)))
    y = kindly(conv_p, blocks, kernel, mixed='N', dims=dims, preferred_element_type=dtype,
               **{**windows, 'padding': tuple(along.padding for along in after.values())})
    if out_sharding is None:
        y = settle(y, blocks, kernel)

    t = typeof(y)
    partitions = [(t.partitions[_place(d, new_out) - 1] if d in new_out else ()) + t.partitions[_place(d, new_out)]
                  for d in range(len(of_out))]
    for d, do in zip(of_x[2:], of_out[2:], strict=True):
        partitions[do] = x.type.partitions[d]
    shape = tuple(sizes[d] for d in range(len(of_out)))
    goal = t.update(shape=shape, partitions=((),) * len(shape), reduced=t.reduced.difference(*partitions))
    goal = resized('conv_general_dilated', goal, shape, partitions=tuple(partitions), operands=(x.type, w.type))
    y = together(y, goal)
    return y if out_sharding is None else cast(y, wanted(goal, out_sharding))


def _place(d: int, new: Sequence[int]) -> int:
    """Where a dimension comes to lie when one more is put before each of `new`."""
    return d + sum(other <= d for other in new)


def _in_groups(x: Value, d: int, groups: int) -> Value:
    """Dimension d as two, of groups and of what is in one. It is gathered where a group would be cut."""
    t = typeof(x)
    if groups % t.mesh.axis_size(t.partitions[d]):
        x = whole_along(x, (d,))
    return reshape(x, new_sizes=(*t.shape[:d], groups, t.shape[d] // groups, *t.shape[d + 1:]))


def _check_groups(x: Value, w: Value, numbers: ConvDimensionNumbers, features: int, batches: int) -> None:
    n, c = (x.shape[d] for d in numbers.lhs_spec[:2])
    o, i = (w.shape[d] for d in numbers.rhs_spec[:2])
    if min(features, batches) < 1 or min(features, batches) > 1:
        raise ValueError(f"conv_general_dilated: feature_group_count and batch_group_count are positive and one of them is 1, got "
                         f"{features} and {batches}")
    if c != i * features:
        raise ValueError(f"conv_general_dilated: the array has {c} features and the kernel takes {i} in each of {features} groups, "
                         f"got {show((x.type, w.type))}")
    for what, size, groups in (('features out', o, features * batches), ('batch', n, batches)):
        if size % groups:
            raise ValueError(f"conv_general_dilated: {groups} groups do not divide {what} of size {size}, got {show((x.type, w.type))}")


def _refuse_choice(x: Value, w: Value, numbers: ConvDimensionNumbers) -> None:
    """Raise where both operands are split along the features that are summed: each rank has a part of the sum."""
    axes = x.type.partitions[numbers.lhs_spec[1]]
    if axes and w.type.partitions[numbers.rhs_spec[1]]:
        raise ShardingTypeError(
            f"conv_general_dilated: the operands are split along the features that are summed, got {show((x.type, w.type))}. So each "
            "rank has a part of the sum, and it is for you to say what becomes of it: out_sharding=P() adds up by an all-reduce, "
            f"out_sharding=P(unreduced={{{', '.join(map(repr, axes))}}}) leaves that for later. (Say there too how the other "
            "dimensions are split.)")


def conv(lhs, rhs, window_strides: Sequence[int], padding: Pads, precision=None, preferred_element_type=None) -> Value:
    """The convolution of [n, c, s...] and [o, c, k...]. See `conv_general_dilated`.

    >>> conv(np.ones((1, 1, 4), np.float32), np.ones((1, 1, 3), np.float32), (1,), 'VALID')
    Array([[[3., 3.]]], dtype=float32)
    """
    return conv_general_dilated(lhs, rhs, window_strides, padding, preferred_element_type=preferred_element_type)


def conv_with_general_padding(lhs, rhs, window_strides: Sequence[int], padding: Pads, lhs_dilation: Sequence[int] | None,
                              rhs_dilation: Sequence[int] | None, precision=None, preferred_element_type=None) -> Value:
    """The convolution of [n, c, s...] and [o, c, k...] with dilations. See `conv_general_dilated`.

    >>> conv_with_general_padding(np.ones((1, 1, 2), np.float32), np.ones((1, 1, 1), np.float32), (1,), [(0, 0)], (2,), None)
    Array([[[1., 0., 1.]]], dtype=float32)
    """
    return conv_general_dilated(lhs, rhs, window_strides, padding, lhs_dilation=lhs_dilation, rhs_dilation=rhs_dilation,
                                preferred_element_type=preferred_element_type)


_LAST = {2: ('NC', 'IO', 'NC'), 3: ('NHC', 'HIO', 'NHC'), 4: ('NHWC', 'HWIO', 'NHWC'), 5: ('NHWDC', 'HWDIO', 'NHWDC')}


def conv_transpose(lhs, rhs, strides: Sequence[int], padding: Pads, rhs_dilation: Sequence[int] | None = None,
                   dimension_numbers: Numbers = None, transpose_kernel: bool = False, precision=None, preferred_element_type=None,
                   use_consistent_padding: bool = False) -> Value:
    """The convolution that makes an array larger: by `strides`, as the one with these strides makes it smaller.

    Args:
      lhs: [n, s..., c], rhs: [k..., c, o], or as `dimension_numbers` say.
      strides: how much larger the dimensions of space become. padding: 'SAME' (just so much), 'VALID', or pairs.
      rhs_dilation: distances between the elements of the kernel. transpose_kernel: turn the kernel round and let features in and out
        change places: the transpose of the convolution with this kernel.
      use_consistent_padding: pairs are those of the convolution that is transposed, not those of this one.
    All else as `conv_general_dilated`.

    >>> conv_transpose(np.ones((1, 2, 1), np.float32), np.ones((2, 1, 1), np.float32), (2,), 'VALID').ravel()
    Array([1., 1., 1., 1.], dtype=float32)
    """
    x, w = as_value(lhs, 'conv_transpose'), as_value(rhs, 'conv_transpose')
    if dimension_numbers is None and x.ndim not in _LAST:
        raise ValueError(f"conv_transpose of {x.type} takes dimension_numbers: there are none of their own for this rank")
    numbers = conv_dimension_numbers(x.shape, w.shape, _LAST[x.ndim] if dimension_numbers is None else dimension_numbers)
    of_w, rank = numbers.rhs_spec, x.ndim - 2
    strides, rd = _each('strides', strides, rank), _each('rhs_dilation', rhs_dilation, rank)
    reach = [dilated(w.shape[d], r) for d, r in zip(of_w[2:], rd, strict=True)]
    if isinstance(padding, str):
        pads = [_transposed_pads(k, s, padding.upper()) for k, s in zip(reach, strides, strict=True)]
    elif use_consistent_padding:
        pads = [(k - 1 - low, k - 1 - high) for k, (low, high) in zip(reach, padding, strict=True)]
    else:
        pads = padding
    if transpose_kernel:
        w = rev(w, of_w[2:])
        numbers = numbers._replace(rhs_spec=(of_w[1], of_w[0], *of_w[2:]))
    return conv_general_dilated(x, w, (1,) * rank, pads, strides, rd, numbers, preferred_element_type=preferred_element_type)


def _transposed_pads(reach: int, stride: int, word: str) -> tuple[int, int]:
    """The padding with which 'SAME' gives stride times the size, and 'VALID' every place that the kernel touches."""
    if word not in ('SAME', 'VALID'):
        raise ValueError(f"conv_transpose: padding is 'SAME', 'VALID' or pairs, got {word!r}")
    total = reach + stride - 2 + (max(reach - stride, 0) if word == 'VALID' else 0)
    before = reach - 1 if word == 'VALID' or stride > reach - 1 else -(-total // 2)
    return before, total - before
