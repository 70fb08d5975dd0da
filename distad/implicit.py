"""Solutions of equations, differentiated by what they solve instead of by how they were found.

The solution of f(x, p) = 0 moves with p by dx = -(df/dx)^-1 (df/dp) dp: so a gradient is one solve with the transpose of df/dx, and one
pull back through f. What is solved for in the backward pass is again such a solution, so derivatives of any order follow. Forward mode
is refused, as for every function with a rule for reverse mode alone.
"""

from collections.abc import Callable
from typing import Any

from distad import tree
from distad.api import vjp
from distad.control.custom_rules import closure_convert, custom_vjp
from distad.linear import linear_transpose
from distad.ops.arithmetic import neg
from distad.ops.stop import stop_gradient


def custom_linear_solve(matvec: Callable, b: Any, solve: Callable, transpose_solve: Callable | None = None, symmetric: bool = False,
                        has_aux: bool = False) -> Any:
    """The x with matvec(x) = b, as `solve(matvec, b)` finds it, with gradients by a solve of the transposed equation.

    matvec: linear, trees like b to trees like b; gradients reach b and the arrays that it closes over. solve: `(matvec, b) -> x`, which
    is traced and not differentiated. transpose_solve: the same for the transpose of `matvec`; with `symmetric` that is `matvec`, solved
    by `solve`.
    has_aux: the solvers return a pair, of which the second is handed on without a gradient. Returns x.
    Communication: that of `solve`; in the backward pass that of `transpose_solve` and of matvec's transpose.
    Raises TypeError in the backward pass if there is no `transpose_solve`.

        a = 2 * jnp.eye(2)
        lax.custom_linear_solve(lambda x: a @ x, jnp.ones(2), lambda f, b: jnp.linalg.solve(a, b), symmetric=True)
    """
    product, consts = closure_convert(matvec, b)
    # What the solvers close over takes no part in gradients, but has to reach the backward pass.
    forward = closure_convert(lambda b: solve(matvec, b), b)
    backward = forward if symmetric else transpose_solve and closure_convert(
        lambda ct: transpose_solve(lambda ct: linear_transpose(matvec, b)(ct)[0], ct), b)

    @custom_vjp
    def solved(consts: list, solver_consts: list, other_consts: list, b: Any) -> Any:
        return forward[0](b, *solver_consts)

    def fwd(*args: Any) -> tuple:
        out = solved(*args)
        return out, (args, out[0] if has_aux else out)

    def bwd(residuals: tuple, ct: Any) -> tuple:
        (consts, solver_consts, other_consts, _), x = residuals
        if not backward:
            raise TypeError('custom_linear_solve: a gradient takes transpose_solve=, or symmetric=True')

        def forth(v: Any) -> Any:
            return product(v, *consts)
        y = custom_linear_solve(
            forth if symmetric else lambda ct: linear_transpose(forth, x)(ct)[0], ct[0] if has_aux else ct,
            lambda _, ct: backward[0](ct, *other_consts), lambda _, b: forward[0](b, *solver_consts), symmetric, has_aux)
        y = y[0] if has_aux else y
        ct_consts, = vjp(lambda consts: product(x, *consts), consts)[1](tree.map(neg, y))
        return ct_consts, None, None, y

    solved.defvjp(fwd, bwd)
    return solved(consts, *tree.map(stop_gradient, [forward[1], backward[1] if backward else []]), b)


def custom_root(f: Callable, initial_guess: Any, solve: Callable, tangent_solve: Callable, has_aux: bool = False) -> Any:
    """The x with f(x) = 0, as `solve(f, initial_guess)` finds it, with gradients by a solve of the linearized equation.

    f: trees like the guess to trees like it; gradients reach the arrays that it closes over, and none the guess. solve: traced, not
    differentiated. tangent_solve: `(g, y) -> x` with g(x) = y for a linear function g, as `lambda g, y: y / g(1.0)` for numbers.
    has_aux: `solve` returns a pair, of which the second is handed on without a gradient. Returns x.
    Communication: that of `solve`; in the backward pass that of `tangent_solve` and of f's transpose.

        lax.custom_root(lambda x: x * x - 2., 1., lambda f, x: x - f(x) / (2 * x), lambda g, y: y / g(1.))
    """
    function, consts = closure_convert(f, initial_guess)
    found, solver_consts = closure_convert(lambda x: solve(f, x), initial_guess)

    @custom_vjp
    def solved(consts: list, solver_consts: list, guess: Any) -> Any:
        return found(guess, *solver_consts)

    def fwd(consts: list, *rest: Any) -> tuple:
        out = solved(consts, *rest)
        return out, (consts, out[0] if has_aux else out)

    def bwd(residuals: tuple, ct: Any) -> tuple:
        consts, x = residuals
        _, pull = vjp(lambda x, consts: function(x, *consts), x, consts)
        y = custom_linear_solve(lambda ct: pull(ct)[0], ct[0] if has_aux else ct, tangent_solve, tangent_solve)
        return pull(tree.map(neg, y))[1], None, None

    solved.defvjp(fwd, bwd)
    return solved(consts, *tree.map(stop_gradient, [solver_consts, initial_guess]))


__all__ = ['custom_linear_solve', 'custom_root']
