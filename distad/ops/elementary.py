"""Elementary functions, each with its derivative on its own line."""

import numpy as np
from scipy import special

from distad.core.primitive import NoRule
from distad.ops.arithmetic import add, div, mul, neg, sub
from distad.ops.makers import FLOAT, NUMBER, REAL_FLOAT, constant, elementwise, in_float32, scalar, ufunc, unary

exp = unary('exp', ufunc(np.exp), jvp=lambda t, y, x: mul(t, y))
log = unary('log', ufunc(np.log), jvp=lambda t, y, x: div(t, x))
sin = unary('sin', ufunc(np.sin), jvp=lambda t, y, x: mul(t, cos(x)))
cos = unary('cos', ufunc(np.cos), jvp=lambda t, y, x: neg(mul(t, sin(x))))
tanh = unary('tanh', ufunc(np.tanh), jvp=lambda t, y, x: mul(t, sub(scalar(1, y), mul(y, y))))
sqrt = unary('sqrt', ufunc(np.sqrt), jvp=lambda t, y, x: div(mul(t, scalar(0.5, x)), y))
logistic = unary('logistic', in_float32(special.expit), jvp=lambda t, y, x: mul(t, mul(y, sub(scalar(1, y), y))))
sign = constant('sign', ufunc(np.sign))
