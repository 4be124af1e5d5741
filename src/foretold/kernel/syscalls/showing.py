"""How a call is shown in an error: as it would stand in the program, and alike in each run."""

from __future__ import annotations

import enum
import os
import signal
import sys
from collections.abc import Sequence
from typing import Any

_SHOWN_CHARS_MAX = 60
_SHOWN_ITEMS_MAX = 4


def _show(value: object) -> str:
    """A value as it would stand in the source, without addresses: they differ in each run."""
    if isinstance(value, enum.Enum):
        text = value.name
    elif isinstance(value, tuple | list):
        items = [_show(item) for item in value[:_SHOWN_ITEMS_MAX]]
        items += ["…"] if len(value) > _SHOWN_ITEMS_MAX else []
        text = f"[{', '.join(items)}]" if isinstance(value, list) else f"({', '.join(items)})"
    elif isinstance(value, str | bytes | int | float | None):
        text = repr(value)
    elif isinstance(value, os.PathLike):
        text = repr(os.fspath(value))
    elif isinstance(value, dict):
        text = "{…}"  # an environment, mostly
    else:
        text = getattr(value, "__qualname__", f"<{type(value).__name__}>")
    return text if len(text) <= _SHOWN_CHARS_MAX else text[: _SHOWN_CHARS_MAX - 1] + "…"


def show_call(name: str, args: Sequence[Any]) -> str:
    """The call with all its arguments."""
    return f"{name}({', '.join(map(_show, args))})"


def show_start(name: str, args: Sequence[Any]) -> str:
    """The start of a thread, as it stands in the program rather than in `threading`."""
    thread = getattr(args[0], "__self__", None) if args else None
    if hasattr(thread, "_bootstrap"):
        return f"threading.Thread(target={_show(getattr(thread, '_target', None))}).start()"
    return show_call(name, args[:1])


def show_process(name: str, args: Sequence[Any]) -> str:
    """The start of a process, as it stands in the program rather than in `subprocess`."""
    return show_call("subprocess.Popen", args[:1])


def show_signal(name: str, args: Sequence[Any]) -> str:
    """The signal by its name."""
    return show_call(name, [_member(signal.Signals, number) for number in args[:1]])


def show_two(name: str, args: Sequence[Any]) -> str:
    """The call with its first two arguments."""
    return show_call(name, args[:2])


def show_socket(name: str, args: Sequence[Any]) -> str:
    """The socket's family and kind by their names."""
    module = sys.modules.get("socket")
    kinds = (module.AddressFamily, module.SocketKind) if module else (int, int)
    return show_call(name, [_member(*pair) for pair in zip(kinds, args, strict=False)])


def _member(kind: type, number: Any) -> Any:
    try:
        return kind(number)
    except ValueError:
        return number  # flags make numbers that have no name: SOCK_STREAM | SOCK_CLOEXEC
