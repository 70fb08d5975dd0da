"""Which line of the user's program is running: for error messages, records of collectives and equations."""

import sys
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

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
