"""The whole table, by module and name."""

from __future__ import annotations

from typing import Final

from foretold.errors import ForetoldError
from foretold.kernel.syscalls import of_modules, of_os, of_python
from foretold.kernel.syscalls.of_python import NOT_FOR_PROGRAMS, ONLY_AFTER, WHOLE
from foretold.kernel.syscalls.rows import CallRow, Fate

ROWS: Final = (*of_os.ROWS, *of_modules.ROWS, *of_python.ROWS)


def _by_name() -> dict[str, dict[str, CallRow]]:
    found: dict[str, dict[str, CallRow]] = {}
    for row in ROWS:
        names = found.setdefault(row.module, {})
        for name in row.names:
            if name in names:
                raise ForetoldError(f"{row.module}.{name} is in two rows of the table.")
            names[name] = row
    return found


TABLE: Final = _by_name()


def row_of(module: str, name: str) -> CallRow | None:
    """The row of a name; None if nobody has said what becomes of it."""
    row = TABLE.get(module, {}).get(name)
    if row is not None:
        return row
    reason = WHOLE.get(module)
    if reason is None and module in ONLY_AFTER:
        reason = f"Until {ONLY_AFTER[module].replace(' ', ' or ')} was called, it only raises."
    return None if reason is None else CallRow(Fate.HARMLESS, module, (name,), reason)


def is_known(module: str) -> bool:
    """Whether the table says something about a module in C."""
    return module in TABLE or module in WHOLE or module.startswith(NOT_FOR_PROGRAMS)
