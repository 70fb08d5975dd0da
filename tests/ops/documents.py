"""What docstrings show."""

import inspect
import re

CODE = re.compile(r'([\w, ]+ = )?[\w.]+\(.*\)( +#.*)?$')


def examples(f: object) -> list[str]:
    """The lines of example: those that stand further in than the text, or, where there is no text, those that are calls.

    (From Python 3.13 on the compiler takes away what all lines are indented by.)
    """
    lines = (inspect.getdoc(f) or '').splitlines()[1:]
    return [line.strip() for line in lines if line.startswith('    ')] or [line for line in lines if CODE.match(line)]
