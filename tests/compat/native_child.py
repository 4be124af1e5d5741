"""A fresh process that runs programs of native_programs.py: `native_child.py [--warm] NAME…`.

It prints a line of JSON: by program, what came of it with each seed, and how long it took. A module
that is not installed gives "missing". The first run of a program is not counted, as in a search: it
imports modules. A warm process calls each program outside of any run before, so that libraries have
seeded their generators with real randomness; and it takes the seeds backwards.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import sys
import time
from pathlib import Path
from typing import Any

import foretold

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.compat import native_programs

SEEDS = (1, 2, 3)


def came_of(program: Any, seed: int) -> str:
    """A digest of value and trace, or the error in words."""
    try:
        run = foretold.run(program, seed=seed)
    except foretold.EscapedWorld as error:
        return f"EscapedWorld: {str(error).splitlines()[0]}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    content = f"{run.value!r} {run.trace.digest}"
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def is_installed(name: str) -> bool:
    """Whether the library that a program is named after can be imported."""
    return importlib.util.find_spec(name.split("__")[0]) is not None


def main(names: list[str]) -> None:
    """Run these programs, one after the other."""
    result: dict[str, Any] = {}
    is_warm = names[0] == "--warm"
    names = names[is_warm:]
    for name in names:
        if not is_installed(name):
            result[name] = "missing"
            continue
        program = getattr(native_programs, name)
        native_programs.BEFORE.get(name, program if is_warm else int)()
        before_s = time.perf_counter()
        came_of(program, SEEDS[-1])
        order = reversed(SEEDS) if is_warm else SEEDS
        found = dict(sorted((seed, came_of(program, seed)) for seed in order))
        took_s = (time.perf_counter() - before_s) / (len(SEEDS) + 1)
        result[name] = {"came": list(found.values()), "took_s": took_s}
    sys.stdout.write(json.dumps(result) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
