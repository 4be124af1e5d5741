"""Change what a builtin does, for all who hold it, and change it back exactly.

A program under test reads the clock through whatever name it likes: `time.time()`, or a `time` that
it imported long before the run, or one that a library keeps in a list. Replacing the entry of a
module misses the second and the third. So the *function object* is changed, not the names that lead
to it: three fields of its C structure are pointed at a Python callable.

    m_ml        a method definition of our own, of the same name and doc, whose C function is
                CPython's own `PyObject_Vectorcall`
    m_self      the callable: exactly what `PyObject_Vectorcall` expects as its first argument
    vectorcall  the entry point that fits the new definition's flags, taken from another builtin

No compiled code and no ctypes callback takes part in a call (an exception inside a ctypes callback
is lost, or kills the process); so errors, keywords and Ctrl-C pass as through any Python function.

Methods of C types have no object of their own that one could change. Their entry in the type is
replaced, for which a type that calls itself immutable is unlocked for one assignment.

All this relies on the layout of CPython's structures. The layout is verified when this module is
imported, and a Python on which it was never tried is refused, with a sentence that says so.
"""

from __future__ import annotations

import _ctypes
import ctypes
import gc
import sys
from collections.abc import Callable, Iterable
from types import BuiltinFunctionType, ModuleType
from typing import Any, Final, Protocol, TypeVar

from foretold.errors import ForetoldError
from foretold.kernel.type_tags import IMMUTABLE, Tags
from foretold.kernel.type_tags import TypeView as _Type
from foretold.platforms import refuse_elsewhere

F = TypeVar("F", bound=Callable[..., Any])

_METH_KEYWORDS = 0x0002
_METH_NOARGS = 0x0004
_METH_FASTCALL = 0x0080
_METH_METHOD = 0x0200
_TP_STATIC_BUILTIN = 1 << 1  # 3.12 and later: the type's dict is kept by the interpreter
_MISSING: Final = object()


class _MethodDef(ctypes.Structure):
    """CPython's PyMethodDef."""

    _fields_ = (
        ("ml_name", ctypes.c_void_p),
        ("ml_meth", ctypes.c_void_p),
        ("ml_flags", ctypes.c_int),
        ("ml_doc", ctypes.c_void_p),
    )


class _Function(ctypes.Structure):
    """CPython's PyCFunctionObject: a builtin function, or a builtin method bound to its object."""

    _fields_ = (
        ("ob_refcnt", ctypes.c_ssize_t),
        ("ob_type", ctypes.c_void_p),
        ("m_ml", ctypes.c_void_p),
        ("m_self", ctypes.c_void_p),
        ("m_module", ctypes.c_void_p),
        ("m_weakreflist", ctypes.c_void_p),
        ("vectorcall", ctypes.c_void_p),
    )


def _view(function: Callable[..., Any]) -> Any:
    return _Function.from_address(id(function))


def _definition(function: Callable[..., Any]) -> Any:
    return _MethodDef.from_address(_view(function).m_ml)


def _layout_error() -> str | None:
    """The first field that does not hold what it must; only reads, and only known objects."""
    view, definition = _view(sorted), _definition(sorted)
    kind = _Type.from_address(id(BuiltinFunctionType))
    checks = {
        "ob_type": view.ob_type == id(BuiltinFunctionType),
        "m_self": view.m_self == id(sorted.__self__),  # type: ignore[attr-defined]  # typeshed has a plain function
        "m_module": view.m_module == id(sorted.__module__),
        "ml_name": ctypes.string_at(definition.ml_name) == b"sorted",
        "ml_flags": definition.ml_flags == _METH_FASTCALL | _METH_KEYWORDS,
        "ml_flags of globals": _definition(globals).ml_flags == _METH_NOARGS,
        "tp_basicsize": kind.tp_basicsize == BuiltinFunctionType.__basicsize__,
        "tp_vectorcall_offset": kind.tp_vectorcall_offset == _Function.vectorcall.offset,
        "tp_flags": kind.tp_flags == BuiltinFunctionType.__flags__,
        "tp_hash": kind.tp_hash != _Type.from_address(id(int)).tp_hash,
        "tp_base": _Type.from_address(id(bool)).tp_base == id(int),
        "tp_new": kind.tp_new is None and _Type.from_address(id(int)).tp_new is not None,
        "tp_mro": _Type.from_address(id(int)).tp_mro == id(int.__mro__),
    }
    return next((field for field, holds in checks.items() if not holds), None)


def _check_platform() -> None:
    refuse_elsewhere()
    field = _layout_error()
    if field is not None:
        raise ForetoldError(
            f"this build of CPython {sys.version.split()[0]} lays out its objects in another way"
            f" than the official ones ({field} is not where it should be), so that foretold cannot"
            " replace the clock in it. Run it with a build from python.org or your distribution."
        )


_check_platform()

_called_in_c: Final = vars(_ctypes)["CFuncPtr"].__call__


def python_in_c() -> Any:
    """The functions of the interpreter, for the framework's own use. (Not `ctypes.pythonapi`: its
    argument types are shared by all who use it.) No Python code comes between a call and the
    function, also while calls by ctypes are guarded: a class that has the method itself keeps the
    C function for it."""
    found: Any = ctypes.PyDLL(None)
    found._FuncPtr.__call__ = _called_in_c
    return found


_api: Final = python_in_c()
_api.PyCFunction_NewEx.restype = ctypes.py_object
_api.PyCFunction_NewEx.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.py_object]
_api.PyType_Modified.restype = None
_api.PyType_Modified.argtypes = [ctypes.py_object]
_api.Py_IncRef.restype = _api.Py_DecRef.restype = None
_api.Py_IncRef.argtypes = _api.Py_DecRef.argtypes = [ctypes.py_object]

_NATIVE_CALL: Final = ctypes.cast(_api.PyObject_Vectorcall, ctypes.c_void_p).value
_ENTRY_POINT: Final = _view(sorted).vectorcall


class StandIn(ModuleType):
    """What a swapped builtin is bound to; each has a subclass of its own with a `__call__`.

    It is a module because builtins are bound to their module: the builtin keeps its repr (one with
    an address in it would differ from run to run), its qualified name, and can be pickled.
    """


def is_swapped(function: Callable[..., Any]) -> bool:
    """Whether the builtin is at present something other than what CPython made it."""
    return isinstance(getattr(function, "__self__", None), StandIn)


def _check_swappable(function: object) -> None:
    if type(function) is not BuiltinFunctionType:
        raise ForetoldError(
            f"only builtin functions can be swapped, not {function!r};"
            " use `Setting` for the attribute of a class."
        )
    if _definition(function).ml_flags & _METH_METHOD:
        raise ForetoldError(f"{function!r} needs its defining class (METH_METHOD): not supported.")


def copy_of(function: F) -> F:
    """An independent builtin that does what this one does now, and will go on doing so."""
    _check_swappable(function)
    if is_swapped(function):
        raise ForetoldError(f"{function!r} is swapped: a copy of it would not be the real one.")
    view = _view(function)
    copy: F = _api.PyCFunction_NewEx(view.m_ml, view.m_self, function.__module__)
    return copy


_definitions: Final[dict[int, int]] = {}


def _definition_like(address: int) -> int:
    """Where a definition lies that has the name and doc of that at `address`, and calls `m_self`.

    It is never freed: a builtin that is still swapped while the interpreter ends reads it as its
    last act. There is one for each definition of CPython's, however often it is swapped.
    """
    if address not in _definitions:
        before = _MethodDef.from_address(address)
        flags = _METH_FASTCALL | _METH_KEYWORDS
        definition = _MethodDef(before.ml_name, _NATIVE_CALL, flags, before.ml_doc)
        _api.Py_IncRef(definition)
        _definitions[address] = ctypes.addressof(definition)
        _definitions[_definitions[address]] = _definitions[address]
    return _definitions[address]


# --- the hash of builtins --------------------------------------------------------------------

# A builtin hashes by m_self and its C function, which are just what a swap changes; it would no
# longer be found in `os.supports_fd`, or in whatever table someone keeps of functions. So while
# anything is swapped, all builtins hash by a function of ours that remembers the former values.
# (From 3.12 on, no sub-interpreter can be made meanwhile: it derives its own types from that slot.)
_hashes: Final[dict[int, int]] = {}


class _HashesInPython:
    """Its slot is the C function that calls a `__hash__` written in Python."""

    def __hash__(self) -> int:
        return 0


_real_hash: Final = BuiltinFunctionType.__dict__["__hash__"]
_REAL_HASH_SLOT: Final = _Type.from_address(id(BuiltinFunctionType)).tp_hash
_PYTHON_HASH_SLOT: Final = _Type.from_address(id(_HashesInPython)).tp_hash


def _hash_of_builtin(self: BuiltinFunctionType) -> int:
    kept = _hashes.get(id(self))
    return _real_hash(self) if kept is None else kept


_tags_of_builtins: Final = Tags()


def _set_hash_of_builtins(method: Callable[..., int], slot: int) -> None:
    with _tags_of_builtins.kept([BuiltinFunctionType]):
        (namespace,) = gc.get_referents(BuiltinFunctionType.__dict__)
        namespace["__hash__"], _Type.from_address(id(BuiltinFunctionType)).tp_hash = method, slot
        _api.PyType_Modified(BuiltinFunctionType)
        if method is _real_hash:
            _tags_of_builtins.give_back()


def _keep_hash(function: Callable[..., Any], value: int) -> bool:
    """Let the function keep its hash; False if it does already, because of a swap below."""
    if id(function) in _hashes:
        return False
    if not _hashes:
        _set_hash_of_builtins(_hash_of_builtin, _PYTHON_HASH_SLOT)
    _hashes[id(function)] = value
    return True


# --- functions -------------------------------------------------------------------------------

_Words: Final = ctypes.c_uint64 * (ctypes.sizeof(_Function) // ctypes.sizeof(ctypes.c_uint64))
_M_ML: Final = _Function.m_ml.offset // ctypes.sizeof(ctypes.c_uint64)
_M_SELF: Final = _Function.m_self.offset // ctypes.sizeof(ctypes.c_uint64)
_VECTORCALL: Final = _Function.vectorcall.offset // ctypes.sizeof(ctypes.c_uint64)
_M_SELF_AMONG_FIELDS: Final = 1


class Swap:
    """One builtin function that can be made to do something else. It is swapped by `apply`.

    Swaps of one builtin may be stacked; they are undone in reverse order.
    """

    __slots__ = (
        "_after", "_before", "_hash", "_keeps_hash", "_stand_in", "_words", "function",
        "replacement",
    )  # fmt: skip

    def __init__(self, function: Callable[..., Any], replacement: Callable[..., Any]) -> None:
        _check_swappable(function)
        self.function = function
        self.replacement = replacement
        self._hash = hash(function)
        self._keeps_hash = False
        self._before: tuple[int, ...] | None = None
        # As plain numbers: a run alone makes and undoes more than a hundred swaps, and the fields
        # of a ctypes structure take thrice as long.
        self._words = memoryview(_Words.from_address(id(function))).cast("B").cast("Q")
        # A static method costs less than a method here: no first argument has to be put in front.
        kind = type(StandIn.__name__, (StandIn,), {"__call__": staticmethod(replacement)})
        self._stand_in = kind(function.__module__ or function.__name__)
        definition = _definition_like(self._words[_M_ML])
        self._after = (definition, id(self._stand_in), _ENTRY_POINT)

    def _fields(self) -> tuple[int, ...]:
        words = self._words
        return words[_M_ML], words[_M_SELF], words[_VECTORCALL]

    def _write(self, fields: tuple[int, ...]) -> None:
        words = self._words
        # One line without a call: no other thread, signal or trace function can come in between.
        words[_M_ML], words[_M_SELF], words[_VECTORCALL] = fields

    def apply(self) -> None:
        if self._before is not None:
            raise ForetoldError(f"{self.function!r} is already swapped by this very swap.")
        before = self._fields()
        self._keeps_hash = _keep_hash(self.function, self._hash)
        # The function owns what m_self points to; the garbage collector counts on it.
        _api.Py_IncRef(self._stand_in)
        self._write(self._after)
        self._before = before

    def undo(self) -> None:
        if self._before is None:
            return
        if self._fields() != self._after:
            raise ForetoldError(
                f"{self.function!r} was swapped again since: undo that first, then this."
            )
        self._write(self._before)
        self._before = None
        if self._keeps_hash:
            del _hashes[id(self.function)]
            if not _hashes:
                _set_hash_of_builtins(_real_hash, _REAL_HASH_SLOT)
        _api.Py_DecRef(self._stand_in)


class Swaps:
    """Many swaps that are applied and undone together, each time a session begins and ends: a
    session for a single run makes hundreds of them. They must not be stacked on others."""

    __slots__ = ("_applied", "_hashes", "_steps")

    def __init__(self, swaps: Iterable[Swap]) -> None:
        made = tuple(swaps)
        self._hashes = {id(swap.function): swap._hash for swap in made}
        self._steps = [(swap._words, swap._fields(), swap._after) for swap in made]
        self._applied = False
        for swap in made:
            # For ever: whether the function owns its stand-in need not be counted each time.
            _api.Py_IncRef(swap._stand_in)

    def _check(self, which: int, word: str) -> None:
        for step in self._steps:
            if step[0][_M_SELF] != step[which][_M_SELF_AMONG_FIELDS]:
                raise ForetoldError(f"a builtin of the table is {word}: undo that first.")

    def apply(self) -> None:
        self._check(1, "swapped already")
        if not _hashes:
            _set_hash_of_builtins(_hash_of_builtin, _PYTHON_HASH_SLOT)
        _hashes.update(self._hashes)
        for words, _, fields in self._steps:
            words[_M_ML], words[_M_SELF], words[_VECTORCALL] = fields
        self._applied = True

    def undo(self) -> None:
        if not self._applied:
            return
        self._check(2, "swapped again since")
        for words, fields, _ in self._steps:
            words[_M_ML], words[_M_SELF], words[_VECTORCALL] = fields
        self._applied = False
        for function in self._hashes:
            del _hashes[function]
        if not _hashes:
            _set_hash_of_builtins(_real_hash, _REAL_HASH_SLOT)


# --- attributes of classes -------------------------------------------------------------------


def _set_in_dict(owner: type, name: str, value: object) -> None:
    """Change a type whose dict the interpreter keeps elsewhere; slots are not recomputed."""
    if name.startswith("__"):
        raise ForetoldError(f"{owner.__name__}.{name} is a slot of a static type: not supported.")
    (namespace,) = gc.get_referents(owner.__dict__)
    if value is _MISSING:
        del namespace[name]
    else:
        namespace[name] = value
    _api.PyType_Modified(owner)


def _set_attribute(owner: type, name: str, value: object) -> None:
    """`owner.name = value`, or `del owner.name`, also where the type says that it is immutable.

    CPython's own assignment recomputes the slots of the type and of all its subclasses, so a
    `__hash__` or `__init__` set here is the one that C code calls, in subclasses made earlier too.
    """
    if owner.__flags__ & _TP_STATIC_BUILTIN:
        _set_in_dict(owner, name, value)
        return
    head = _Type.from_address(id(owner))
    locked = owner.__flags__ & IMMUTABLE
    head.tp_flags &= ~IMMUTABLE
    try:
        if value is _MISSING:
            delattr(owner, name)
        else:
            setattr(owner, name, value)
    finally:
        head.tp_flags |= locked


class Setting:
    """One attribute of a class, Python's or C's, that can be made another one by `apply`. What the
    program puts in its place meanwhile (Sentry wraps `Thread.start`) goes with it."""

    __slots__ = ("_applied", "_before", "name", "owner", "value")

    def __init__(self, owner: type, name: str, value: object) -> None:
        self.owner = owner
        self.name = name
        self.value = value
        self._before: Any = _MISSING
        self._applied = False

    def before(self, default: Any) -> Any:
        """What was there before; the default if this is not applied."""
        return self._before if self._applied else default

    def apply(self) -> None:
        if self._applied:
            raise ForetoldError(f"{self.owner.__name__}.{self.name} is already set by this.")
        self._before = self.owner.__dict__.get(self.name, _MISSING)
        _set_attribute(self.owner, self.name, self.value)
        self._applied = True

    def undo(self) -> None:
        if not self._applied:
            return
        _set_attribute(self.owner, self.name, self._before)
        self._applied = False


class ModuleName:
    """A name of a module that leads to something else for a while."""

    def __init__(self, module: ModuleType, name: str, value: object) -> None:
        self._module, self._name, self._value = module, name, value
        self._before = getattr(module, name)

    def apply(self) -> None:
        setattr(self._module, self._name, self._value)

    def undo(self) -> None:
        setattr(self._module, self._name, self._before)


class ProcessChange(Protocol):
    """Something that can be done to the process and undone."""

    def apply(self) -> None: ...
    def undo(self) -> None: ...


class Changes:
    """Swaps and settings that are applied together, all or none, and undone in reverse order."""

    __slots__ = ("_applied", "_tags")

    def __init__(self) -> None:
        self._applied: list[ProcessChange] = []
        self._tags = Tags()

    def apply(self, *changes: ProcessChange) -> None:
        if not changes:
            return  # asked in each run; to look after the tags of types costs more than the rest
        with self._tags.kept([change.owner for change in changes if type(change) is Setting]):
            try:
                for change in changes:
                    change.apply()
                    self._applied.append(change)
            except BaseException:
                self.undo()
                raise

    def __bool__(self) -> bool:
        return bool(self._applied)

    def undo(self) -> None:
        if not self._applied and not self._tags:
            return
        with self._tags.kept(()):
            while self._applied:
                self._applied[-1].undo()
                self._applied.pop()
            self._tags.give_back()


def init_slot(owner: type) -> int | None:
    """The C function that initialises instances of the class."""
    address: int | None = _Type.from_address(id(owner)).tp_init
    return address


def set_init_slot(owner: type, address: int | None) -> None:
    """Give a class back the C function that it had, past the `__init__` set on its base."""
    _Type.from_address(id(owner)).tp_init = address


def _check_mechanism() -> None:
    """Swap a private copy of a harmless builtin, call it in each way, and look at what is left."""
    victim: Callable[..., Any] = copy_of(divmod)
    swap = Swap(victim, lambda *args, **names: (args, names))
    before = swap._fields()
    swap.apply()
    try:
        works = victim(1, 2) == ((1, 2), {}) and victim(1, b=2) == ((1,), {"b": 2})
    finally:
        swap.undo()
    if not works or swap._fields() != before or victim(7, 2) != (3, 1):
        raise ForetoldError(f"builtins cannot be swapped on {sys.version}: the self-check failed.")


_check_mechanism()
