"""Which line of the user's program is running: for error messages, records of collectives and equations."""

import os
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, TracebackType

import optree

# The library's own files, and those of the pytree library that calls back into it.
_OURS = (str(Path(__file__).parent) + '/', str(Path(optree.__file__).parent) + '/', '<distad ')


@dataclass(frozen=True, slots=True)
class Source:
    """A place in a user's file."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} ({self.function})"


UNKNOWN = Source('<unknown>', 0, '')


def user_frame() -> FrameType | None:
    """The innermost frame that is not the library's own."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_OURS):
        frame = frame.f_back
    return frame


def user_source() -> Source:
    """The user's file, line and function that led here."""
    frame = user_frame()
    if frame is None:
        return UNKNOWN
    return Source(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)


def traceback_text(kind: type[BaseException], value: BaseException, trace: TracebackType | None) -> str:
    """A traceback as its reader wants it: the lines of the program, without the library's own frames.

    The environment variable DISTAD_TRACEBACK=full shows all of them.
    """
    told = traceback.TracebackException(kind, value, trace)
    hidden = 0 if os.environ.get('DISTAD_TRACEBACK') == 'full' else _hide(told)
    text = ''.join(told.format())
    return text + (f"({hidden} frames of distad are not shown; DISTAD_TRACEBACK=full shows them)\n" if hidden else '')


def _hide(told: traceback.TracebackException) -> int:
    """Take the library's frames out, also of the causes; the number taken."""
    hidden = 0
    while told is not None:
        kept = [frame for frame in told.stack if not frame.filename.startswith(_OURS)]
        if kept:
            hidden += len(told.stack) - len(kept)
            told.stack = traceback.StackSummary.from_list(kept)
        told = told.__cause__ or (None if told.__suppress_context__ else told.__context__)
    return hidden
