"""What makes two types equal that must be: for carries of loops, results of branches and cotangents of custom rules."""

from distad.types.array_type import ArrayType, axis_state
from distad.types.spec import written

# Along a manual axis: the state to which free casts bring both.
COMMON = {frozenset('NV'): ('V', 'varying'), frozenset('RV'): ('V', 'varying'), frozenset('NR'): ('R', 'reduced'),
          frozenset('VU'): ('U', 'unreduced')}

# Along a manual axis: from one state to another.
TOWARDS = {'VN': 'lax.psum({x}, {axis!r})', 'UN': 'lax.psum({x}, {axis!r})', 'NV': "lax.pcast({x}, {axis!r}, to='varying')",
           'RV': "lax.pcast({x}, {axis!r}, to='varying')", 'VU': "lax.pcast({x}, {axis!r}, to='unreduced')",
           'NR': "lax.pcast({x}, {axis!r}, to='reduced')"}


def towards(got: ArrayType, want: ArrayType, x: str) -> str:
    """What to write so that `x`, of type `got`, gets the other type."""
    if got.shape != want.shape or got.dtype != want.dtype:
        return 'Shape and dtype are those of the argument.'
    pairs = [(axis_state(got, axis) + axis_state(want, axis), axis) for axis in want.mesh.manual_axes]
    steps = [TOWARDS[pair].format(x=x, axis=axis) for pair, axis in pairs if pair in TOWARDS]
    return ' '.join(f"Return {step}." for step in steps) or f"Return reshard({x}, {written(want.spec)})."


def repair(a: ArrayType, x: str, b: ArrayType, y: str) -> str:
    """What to write so that `x`, of type `a`, and `y`, of type `b`, get one type."""
    if a.shape != b.shape:
        return 'The shapes must be equal.'
    if a.dtype != b.dtype:
        return f"Convert one of them: {x}.astype({b.dtype.name!r}) or {y}.astype({a.dtype.name!r})."
    odd = [axis for axis in a.mesh.manual_axes if axis_state(a, axis) != axis_state(b, axis)]
    casts: dict[tuple[str, str], list[str]] = {}
    for axis in odd:
        states = axis_state(a, axis), axis_state(b, axis)
        if frozenset(states) not in COMMON:
            return f"The one that is unreduced over {axis} can be summed there: lax.psum({y if states[1] == 'U' else x}, {axis!r})."
        state, to = COMMON[frozenset(states)]
        casts.setdefault((x if states[0] != state else y, to), []).append(axis)
    if casts:
        return ' '.join(f"Cast for free: lax.pcast({what}, {(axes[0] if len(axes) == 1 else tuple(axes))!r}, to={to!r})."
                        for (what, to), axes in casts.items())
    return f"Bring one to the other: reshard({x}, {written(b.spec)}) or reshard({y}, {written(a.spec)})."
