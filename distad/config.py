"""The few switches of a whole process, each readable from the environment and settable from the program.

`config.update('jax_enable_x64', True)` takes JAX's names with or without their `jax_` prefix; `config.enable_x64`
reads one. A switch says how distad works, never what a program means, with one exception that NumPy users know:
`enable_x64` decides whether 64-bit types exist.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Switch:
    """One switch: what it does, its default, its variable in the environment and how to read a value."""

    about: str
    default: Any
    variable: str | None
    parse: Callable[[Any], Any]


_WORDS = dict.fromkeys(('1', 'true', 'yes', 'on'), True) | dict.fromkeys(('', '0', 'false', 'no', 'off'), False)


def _flag(value: Any) -> bool:
    if isinstance(value, str):
        if value.lower() not in _WORDS:
            raise ValueError(f'a switch is on or off (1 or 0, true or false), not {value!r}')
        return _WORDS[value.lower()]
    return bool(value)


_CHECKS = ('types', 'comm', 'values')


def _checks(value: Any) -> frozenset[str]:
    """The words of DISTAD_CHECK. Just "on" means the types."""
    if isinstance(value, str) and value.lower() not in _WORDS:
        value = value.replace(' ', '').split(',')
    words = frozenset(_CHECKS[:1] if _flag(value) else ()) if isinstance(value, (str, bool)) else frozenset(value)
    if not words <= set(_CHECKS):
        odd = ', '.join(sorted(words - set(_CHECKS)))
        raise ValueError(f"DISTAD_CHECK takes {', '.join(_CHECKS)}, one or several with commas, not {odd!r}")
    return words


def _count(value: Any) -> int:
    try:
        return int(value)
    except (TypeError, ValueError):
        raise ValueError(f'a switch that counts is a whole number, not {value!r}') from None


def _cpu(value: Any) -> str:
    if value not in ('cpu', '', None):
        raise ValueError(f'distad runs on the platform cpu, not on {value!r}')
    return 'cpu'


SWITCHES: dict[str, Switch] = {
    'enable_x64': Switch(about='64-bit types exist; otherwise they become 32-bit ones', default=False,
                         variable='DISTAD_ENABLE_X64', parse=_flag),
    'check': Switch(about='what to check that is taken for granted otherwise: types, comm, values (several: types,comm)',
                    default=frozenset(), variable='DISTAD_CHECK', parse=_checks),
    'debug_nans': Switch(about='an operation that gives NaN is an error; the same as the check of values', default=False,
                         variable=None, parse=_flag),
    'disable_jit': Switch(about='jitted functions run as plain Python, operation by operation: for looking into them', default=False,
                          variable=None, parse=_flag),
    'llvm': Switch(about='loops are compiled where llvmlite is installed; otherwise NumPy runs them', default=True,
                   variable='DISTAD_LLVM', parse=_flag),
    'fuse_from': Switch(about='how many elements a pass over memory needs to be compiled as one loop', default=8192,
                        variable='DISTAD_FUSE_FROM', parse=_count),
    'dump': Switch(about='a directory into which jit writes each program after each pass', default='',
                   variable='DISTAD_DUMP', parse=str),
    'max_message_bytes': Switch(about='the most that one MPI call gets; more goes in several, as counts of 2^31 are too much for some',
                                default=1 << 30, variable='DISTAD_MAX_MESSAGE_BYTES', parse=_count),
    'reproducible': Switch(about='sums over ranks are added in the order of the ranks, whatever their size', default=False,
                           variable='DISTAD_REPRODUCIBLE', parse=_flag),
    'num_cpu_devices': Switch(about='accepted for programs written for JAX; here mpirun -n says how many', default=-1,
                              variable=None, parse=_count),
    'platforms': Switch(about='accepted for programs written for JAX; the one platform is cpu', default='cpu',
                        variable=None, parse=_cpu),
    'platform_name': Switch(about='an older name of platforms', default='cpu', variable=None, parse=_cpu),
}


class Config:
    """The values of the switches. Attributes read; `update` sets; `override` sets for a while."""

    def __init__(self) -> None:
        # Plain attributes under the short names: every operation reads one.
        for name, switch in SWITCHES.items():
            text = os.environ.get(switch.variable) if switch.variable else None
            try:
                vars(self)[name] = switch.default if text is None else switch.parse(text)
            except ValueError as error:
                raise ValueError(f'in the environment, {switch.variable}={text}: {error}') from None
        self._follow()

    def __getattr__(self, name: str) -> Any:
        return vars(self)[_known(name)]

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f'config.{name} is read here and set by config.update({name!r}, {value!r})')

    def update(self, name: str, value: Any) -> None:
        """Set a switch. On all ranks alike: programs are traced under it."""
        known = _known(name)
        vars(self)[known] = SWITCHES[known].parse(value)
        self._follow()

    def _follow(self) -> None:
        """What follows from the switches: a flag for each check; `mode`, which tells programs made under other switches apart; and
        `stamp`, an object for each setting of all of them: what was decided under another one has to be decided anew.
        """
        here = vars(self)
        here['check_types'], here['check_comm'] = 'types' in self.check, 'comm' in self.check
        here['check_values'] = self.debug_nans or 'values' in self.check
        here['mode'] = self.enable_x64 + 2 * self.check_values
        here['stamp'] = object()

    @contextmanager
    def override(self, **values: Any) -> Iterator[None]:
        """Set switches for the length of a `with` block."""
        before = dict(vars(self))
        try:
            for name, value in values.items():
                self.update(name, value)
            yield
        finally:
            vars(self).update(before)


def _known(name: str) -> str:
    known = name.removeprefix('jax_')
    if known not in SWITCHES:
        raise AttributeError(f'config has no switch {name!r}; it has {", ".join(SWITCHES)}')
    return known


config = Config()


def enable_x64(new_val: bool = True) -> AbstractContextManager[None]:
    """64-bit types exist, or do not, for the length of a `with` block. On all ranks alike.

        with enable_x64():
            x = jnp.arange(3.)                    # float64[3]
    """
    return config.override(enable_x64=new_val)


def debug_nans(new_val: bool = True) -> AbstractContextManager[None]:
    """An operation that gives NaN is an error for the length of a `with` block.

        with debug_nans():
            jnp.log(x)
    """
    return config.override(debug_nans=new_val)


def disable_jit(disable: bool = True) -> AbstractContextManager[None]:
    """Jitted functions run as plain Python for the length of a `with` block; loops and branches of `lax` stay programs.

        with disable_jit():
            step(x)                               # prints and breakpoints in it see arrays
    """
    return config.override(disable_jit=disable)


def default_matmul_precision(precision: Any = None) -> AbstractContextManager[None]:
    """Accepted and without effect, as `precision=` is: products are computed in the precision of their operands or a better one."""
    return config.override()
