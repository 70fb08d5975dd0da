"""Ways to compute a contraction whose result is to lie in a given place, and the answers to one that has several.

Each dimension may be split as in an operand, as in the result, or not at all. A way picks one of these for every dimension: it
says to what types the operands are brought first, and from what type the product is brought to the result. Moves do the rest.
Of all ways the one with the fewest messages is taken, forward and then with the gradient; of these the one in which a rank
computes least; of these the one that sends least.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

from distad.errors import ShardingTypeError
from distad.ops.contraction import dot_labels, dot_shape
from distad.ops.gemm import DimensionNumbers
from distad.runtime import moves
from distad.runtime.moves import Step
from distad.types.array_type import ArrayType
from distad.types.inference import Signature, agree, common_mesh, show

Axes = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """The types that the operands are brought to, and all that is sent: before and after the local products."""

    x: ArrayType
    y: ArrayType
    sends: tuple[Step, ...]
    cost: tuple[int, int, int, int]


@lru_cache(maxsize=4096)
def cheapest(x: ArrayType, y: ArrayType, dimension_numbers: DimensionNumbers, target: ArrayType) -> Way:
    """The best way from operands of types x and y to a product of type `target`.

    Raises ShardingTypeError where there is none: for two unreduced operands.
    """
    mesh = target.mesh
    x, y = (t.update(mesh=mesh) if t.mesh.empty else t for t in (x, y))
    sig = dot_labels(x, y, dimension_numbers=dimension_numbers, preferred_element_type=target.dtype)
    found, error = [], None
    for split in _splits(sig, x, y, target):
        try:
            found.append(_way(sig, x, y, target, split))
        except ShardingTypeError as e:
            error = error or e
    if error and not found:
        raise error
    return min(found, key=lambda way: way.cost)


def _splits(sig: Signature, x: ArrayType, y: ArrayType, target: ArrayType) -> Iterator[dict]:
    """All assignments of mesh axes to labels. What is unreduced over an axis stays so, thus that axis splits nothing."""
    sizes, options = {}, {}
    for t, labels in ((x, sig.ins[0]), (y, sig.ins[1]), (target, sig.outs[0])):
        for label, n, axes in zip(labels, t.shape, t.partitions, strict=True):
            sizes[label] = n
            options.setdefault(label, []).append(axes)
    for label, axes in options.items():
        if label not in sig.outs[0]:
            axes.append(target.mesh.in_order(target.unreduced))
        axes.append(())
        options[label] = [a for a in dict.fromkeys(axes) if sizes[label] % target.mesh.axis_size(a) == 0]
    for chosen in product(*options.values()):
        used = [name for axes in chosen for name in axes]
        if len(set(used)) == len(used) and not (x.unreduced | y.unreduced).intersection(used):
            yield dict(zip(options, chosen, strict=True))


def _way(sig: Signature, x: ArrayType, y: ArrayType, target: ArrayType, split: dict) -> Way:
    laid = [t.update(partitions=tuple(split[label] for label in labels),
                     reduced=t.reduced.difference(*(split[label] for label in labels)))
            for t, labels in zip((x, y), sig.ins, strict=True)]
    agreement = agree(sig, laid, mixed='N')
    a, b = agreement.operands
    z = agreement.out(0, target.shape, target.dtype)
    there = _messages((x, a), (y, b), (z, target))
    back = _messages((a.dual(), x.dual()), (b.dual(), y.dual()), (target.dual(), z.dual()))
    sizes = dict(zip((*sig.ins[0], *sig.ins[1]), (*a.local_shape, *b.local_shape), strict=True))
    cost = (len(there), len(there) + len(back), math.prod(sizes.values()), sum(step.bytes for step in there))
    return Way(x=a, y=b, sends=there, cost=cost)


def _messages(*pairs: tuple[ArrayType, ArrayType]) -> tuple[Step, ...]:
    return tuple(step for src, dst in pairs for step in moves.messages(moves.plan(_explicit(src), _explicit(dst))))


def _explicit(t: ArrayType) -> ArrayType:
    """The type as far as explicit axes go: along manual ones only casts take place, which send nothing."""
    manual = frozenset(t.mesh.manual_axes)
    return t.update(varying=(), unreduced=t.unreduced - manual, reduced=t.reduced - manual) if manual else t


# ---- when there are several answers

@lru_cache(maxsize=4096)
def refuse_choice(name: str, x: ArrayType, y: ArrayType, dimension_numbers: DimensionNumbers, dtype,
                  order: tuple[int, ...] | None) -> None:
    """Raise ShardingTypeError where both operands are split along a contracted dimension: list the answers and their price."""
    pairs = [(x.partitions[i], y.partitions[j]) for i, j in zip(*dimension_numbers[0], strict=True)]
    both = [(p, q) for p, q in pairs if p and q]
    if not both:
        return
    split = ' and '.join(f"over {_words(p)} in both" if p == q else f"over {_words(p)} in one and over {_words(q)} in the other"
                         for p, q in both)
    answers = [f"    out_sharding={spec}  {price}" for spec, price in _answers(x, y, dimension_numbers, dtype, order, both)]
    raise ShardingTypeError('\n'.join([
        f"{name}: the operands are split along a contracted dimension, {split}, got {show((x, y))}. So each rank has a part "
        "of the sum, and it is for you to say what becomes of it. The answers, and what a rank sends for each:", *answers]))


def _answers(x: ArrayType, y: ArrayType, dimension_numbers, dtype, order, both) -> Iterator[tuple[str, str]]:
    """Shardings of the result: whole, unreduced, and cut over the axes of the sum; each with what it sends."""
    params = {'dimension_numbers': dimension_numbers, 'preferred_element_type': dtype}
    sig = dot_labels(x, y, **params)
    kept = dict(zip((*sig.ins[0], *sig.ins[1]), (*x.partitions, *y.partitions), strict=True))
    summed = {name for p, q in both for name in (*p, *q)}
    shape, _ = dot_shape(x, y, **params)
    order = range(len(shape)) if order is None else order
    mesh = common_mesh('dot_general', (x, y))
    used: set[str] = set()
    base: list[Axes] = []
    for label in sig.outs[0]:
        base.append(kept[label] if not used.union(summed).intersection(kept[label]) else ())
        used.update(base[-1])
    plain = ArrayType(shape, dtype).update(mesh=mesh, partitions=tuple(base))
    axes = mesh.in_order(summed)
    cuts = (d for d in order if not base[d] and shape[d] % mesh.axis_size(axes) == 0)
    for target in (plain, plain.update(unreduced=summed),
                   *(plain.update(partitions=tuple(axes if i == d else p for i, p in enumerate(base))) for d in cuts)):
        price = _price(cheapest(x, y, dimension_numbers, target).sends)
        parts = [_name(target.partitions[d]) for d in order]
        later = [f"unreduced={{{', '.join(map(repr, axes))}}}"] if target.unreduced else []
        yield f"P({', '.join([*parts, *later])})", price


def _price(sends: Sequence[Step]) -> str:
    """What a rank sends, in words. (In a permutation some ranks send less than others.)"""
    most = {'collective-permute': 'up to '}
    return ' and '.join(f"one {s.kind} over {_words(s.axes)} of {most.get(s.kind, '')}{s.bytes} bytes" for s in sends) or 'nothing'


def _name(axes: Axes) -> str:
    return 'None' if not axes else repr(axes[0]) if len(axes) == 1 else repr(axes)


def _words(axes: Axes) -> str:
    return axes[0] if len(axes) == 1 else f"({', '.join(axes)})"
