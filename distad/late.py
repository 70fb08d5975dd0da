"""Other libraries' functions that are looked up when they are first called: who never calls them does not wait for the import."""

import functools
import importlib
from collections.abc import Callable
from typing import Any


class Late:
    """The functions of a module: `special = Late('scipy.special')`, then `special.erf` wherever a function is wanted."""

    __slots__ = ('_module',)

    def __init__(self, module: str):
        self._module = module

    def __getattr__(self, name: str) -> Callable[..., Any]:
        module = self._module

        @functools.cache
        def find() -> Callable[..., Any]:
            return getattr(importlib.import_module(module), name)

        def called(*args: Any, **kwargs: Any) -> Any:
            return find()(*args, **kwargs)
        return called
