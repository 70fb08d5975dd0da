"""Tables of rules, as JAX has them. Here a rule is a field of its primitive; a table reads and writes that field."""

from collections.abc import Callable

from distad.core.primitive import NoRule, Primitive


class Table:
    """The rules of one kind, by primitive: `table[primitive] = rule`."""

    def __init__(self, field: str, write: Callable[[Primitive, Callable], None]):
        self.field, self.write = field, write

    def __setitem__(self, primitive: Primitive, rule: Callable) -> None:
        self.write(primitive, rule)

    def __getitem__(self, primitive: Primitive) -> Callable:
        if primitive not in self:
            raise KeyError(primitive)
        return getattr(primitive, self.field)

    def __contains__(self, primitive: object) -> bool:
        return isinstance(primitive, Primitive) and not isinstance(getattr(primitive, self.field), NoRule)

    def get(self, primitive: Primitive, default: Callable | None = None) -> Callable | None:
        return self[primitive] if primitive in self else default

    def setdefault(self, primitive: Primitive, rule: Callable) -> Callable:
        if primitive not in self:
            self[primitive] = rule
        return self[primitive]
