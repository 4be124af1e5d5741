"""Targets by name: `module:function` or `path/to/file.py:function`, and back again."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import inspect
import sys
import sysconfig
import typing
from collections.abc import Callable
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from foretold.arguments import is_factory
from foretold.errors import TargetError, UsageError
from foretold.harness.program import ScenarioProgram, load_program
from foretold.scenario.source import is_scenario

_HOW = "Name it as module:function, path/to/file.py:function or tests/test_x.py::test_y."
TARGET_CHARS_MAX = 1_000
_LIBRARIES = tuple(
    Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "purelib", "platlib")
)


def check_target(target: str) -> None:
    """A target that can be one at all: short enough for every file system and terminal."""
    if len(target) > TARGET_CHARS_MAX:
        raise TargetError(
            f"{target[:60]!r}… does not name a function: it has {len(target):,} characters, and "
            f"a target has at most {TARGET_CHARS_MAX:,}. {_HOW}"
        )


def check_inside(target: str, project: Path) -> None:
    """A target that somebody else chose, as in a tape, must lie in the project: to run it is to
    run its code, and a tape may come from anywhere."""
    check_target(target)
    if target.startswith(("-", "@")) or not target.isprintable() or not _is_inside(target, project):
        raise TargetError(
            f"the tape names {target!r}, which is not a program in {project}. A tape may "
            "come from another person, so foretold runs only programs of the project. If you "
            "trust this one, name the program yourself: --target TARGET"
        )


def _is_inside(target: str, project: Path) -> bool:
    if is_scenario(target):
        return _lies_in(project / target, project)
    file, colons, _ = target.partition("::")
    where = file if colons else target.rpartition(":")[0] or target
    if colons or where.endswith(".py") or "/" in where or (project / where).is_dir():
        return _lies_in(project / where, project)
    return _module_is_inside(where.partition(".")[0], project)


def _module_is_inside(name: str, project: Path) -> bool:
    """By the outermost package, which is looked for without running anything."""
    here = str(project)
    if here not in sys.path:
        sys.path.insert(0, here)  # as `python -m` does
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError, AttributeError):
        return False
    if spec is None:
        return True  # there is no such module, which is said where it is imported
    found = [spec.origin] if spec.has_location else spec.submodule_search_locations or []
    paths = [Path(each).resolve() for each in found if each is not None]
    in_library = any(path.is_relative_to(each) for path in paths for each in _LIBRARIES)
    return bool(paths) and not in_library and all(_lies_in(each, project) for each in paths)


def _lies_in(path: Path, project: Path) -> bool:
    try:
        return path.resolve().is_relative_to(project.resolve())
    except (OSError, RuntimeError, ValueError):
        return False  # too long, or a loop of links


def importable_name(function: Callable[..., Any]) -> str | None:
    """`module:function` if another process can import just this object by that name."""
    if own := getattr(function, "foretold_name", None):  # a scenario, by its file
        return str(own)
    module_name = getattr(function, "__module__", None)
    qualname = getattr(function, "__qualname__", "")
    if not module_name or module_name == "__main__" or "<" in qualname:
        return None
    found: Any = sys.modules.get(module_name)
    if found is None or not _can_be_found(module_name):
        return None
    for part in qualname.split("."):
        found = getattr(found, part, None)
    same = found is function or found is getattr(function, "foretold_machine", function)
    return f"{module_name}:{qualname}" if same else None


def _can_be_found(module_name: str) -> bool:
    """False for a module that was made by hand, or loaded from a file outside of sys.path."""
    try:
        spec = importlib.util.find_spec(module_name)
    except (ImportError, ValueError, AttributeError):
        return False
    origin = getattr(sys.modules[module_name], "__file__", None)
    return spec is not None and origin is not None and spec.origin == origin


def find_function(target: str) -> Callable[..., Any]:
    """The function that `target` names, or the program of a scenario file."""
    check_target(target)
    if is_scenario(target):
        return find_scenario(target)
    found = find_named(target)
    if is_application(found) or makes_application(found):
        return machine_of(target, found)
    _check_factory(target, found)
    if not callable(found):
        raise TargetError(f"{target} is not a function: its type is {type(found).__name__}. {_HOW}")
    function: Callable[..., Any] = found
    return function


def settings_of_target(target: str, function: Any) -> dict[str, Any]:
    """What its `@foretold.simulate` says. Runs of an application begin in forks, since it exists
    only once and would keep what it stores."""
    simulation = getattr(function, "foretold_simulation", None)
    settings = {} if simulation is None else dict(simulation.settings)
    if getattr(function, "foretold_name", None) == target and not is_scenario(target):
        settings["isolation"] = "fork"
    return {name: value for name, value in settings.items() if value is not None}


def is_application(found: Any) -> bool:
    """Whether this is an application that knows its OpenAPI document (FastAPI, Litestar)."""
    is_made = callable(found) and not isinstance(found, type | FunctionType)
    return is_made and (
        callable(getattr(found, "openapi", None)) or hasattr(found, "openapi_schema")
    )


def makes_application(found: Any) -> bool:
    """Whether this is a function without arguments that says that it returns such an application:
    `def make_app() -> FastAPI`."""
    return is_factory(found) and _says_application(found)


def _check_factory(target: str, found: Any) -> None:
    """What says that it makes an application, and cannot be called as it is, is no program."""
    if isinstance(found, FunctionType) and not is_factory(found) and _says_application(found):
        kind = "is async" if inspect.iscoroutinefunction(found) else "needs arguments"
        raise TargetError(
            f"{target} makes an application, but {kind}: foretold calls a plain function without "
            f"arguments, once for each run. Write one that calls {found.__name__}, or an "
            "`async def serve(self)` in a class derived from foretold.openapi(…)"
        )


def _says_application(found: Any) -> bool:
    if not isinstance(found, FunctionType):
        return False
    try:
        made = typing.get_type_hints(found).get("return")
    except Exception:  # a name that only a type checker knows
        return False
    return isinstance(made, type) and (hasattr(made, "openapi") or hasattr(made, "openapi_schema"))


def may_make_application(found: Any) -> str:
    """What to write if a function that says nothing about what it returns makes an application."""
    silent = isinstance(found, FunctionType) and "return" not in found.__annotations__
    if not (silent and is_factory(found)):
        return ""
    name = found.__name__
    return f"If {name} makes an application, write what it returns: def {name}() -> FastAPI"


@functools.lru_cache(maxsize=8)
def machine_of(target: str, application: Any) -> type[Any]:
    """The machine of an application's document, by the name of the application."""
    from foretold.kernel.libraries import anyio
    from foretold.spec.openapi.machine import openapi  # few targets need it

    importlib.import_module("foretold.services.web.server")  # else each run would, in a fork
    anyio.cancel_scope()
    machine = openapi(application, name=target.rpartition(":")[2].rpartition(".")[2].title())
    machine.foretold_name = target
    machine.covers = machine
    return machine


def find_scenario(path: str, harness: str = "") -> ScenarioProgram:
    """The program of a scenario file. `harness`: what the user wants it to be played on."""
    if not Path(path).is_file():
        raise TargetError(f"there is no file {path!r}")
    here = Path.cwd()
    project = here if _lies_in(Path(path), here) else Path(path).resolve().parent
    return load_program(path, find_named if harness else found_inside(project), harness)


def found_inside(project: Path) -> Callable[[str], Any]:
    """Finds what a scenario is played on, if it lies in the project: to play a file that comes from
    somebody else must not run code from anywhere."""

    def find(name: str) -> Any:
        if not _is_inside(name, project):
            raise UsageError(
                f"{name} does not lie in {project}. A scenario may come from a stranger, so it "
                "is played on what is in the project only. If you trust it, name it yourself: "
                "--harness"
            )
        return find_named(name)

    return find


def find_named(target: str) -> Any:
    """Whatever `target` names."""
    where, colon, name = target.rpartition(":")
    if not colon or not where or not name or where.endswith(":"):
        raise TargetError(f"{target!r} does not name a function. {_HOW}")
    found: Any = _load(where, target)
    for part in name.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise TargetError(f"{where} has no {name!r}. {_HOW}") from None
    return found


def _load(where: str, target: str) -> ModuleType:
    if where.endswith(".py"):
        return _load_file(Path(where), target)
    try:
        return importlib.import_module(where)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{where}.".startswith(f"{error.name}."):
            raise TargetError(f"there is no module {where!r} ({target}). {_HOW}") from None
        raise


def _load_file(path: Path, target: str) -> ModuleType:
    if not path.is_file():
        raise TargetError(f"there is no file {str(path)!r} ({target}). {_HOW}")
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    module = importlib.import_module(path.stem)
    if Path(getattr(module, "__file__", None) or "").resolve() != path.resolve():
        raise TargetError(
            f"{str(path)!r} cannot be imported: another module has the name {path.stem!r} "
            f"({getattr(module, '__file__', None) or 'built in'}). Rename the file."
        )
    return module
