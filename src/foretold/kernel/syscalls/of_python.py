"""The rows of Python itself: `sys`, `gc`, `builtins` and their kin; and the modules in C that are
harmless as a whole."""

from __future__ import annotations

from typing import Final

from foretold.kernel.syscalls.of_os import PROCESS_INSTEAD, PROCESS_WHY, WRITE_WHY
from foretold.kernel.syscalls.rows import (
    CallRow,
    answered,
    answered_or_refused,
    harmless,
    refused,
    words,
)

_OWN_STATE: Final = "It reads or changes what the interpreter has noted, for the calling thread."
_SETTING: Final = "It reads a setting of the interpreter, which is put back when a run ends."
_PUT_BACK: Final = "It sets a number of the interpreter, which is put back when the run ends."
_MEMORY: Final = (
    "It tells how this interpreter uses its memory. That may differ from process to process."
)
_CRASH_WHY: Final = "it ends the test runner, not only the simulated process"
_ALL_THREADS_WHY: Final = "it changes all threads of the process, the test runner's own among them"
_TERMINAL_WHY: Final = "a host has no terminal, and what a real one says is not on the tape"
KEYBOARD_WHY: Final = "what is typed is not on the tape"
KEYBOARD_INSTEAD: Final = 'foretold.choose(["yes", "no"], "answer")'
_CODE: Final = "It runs Python code, whose calls go to the host one by one."
_COMPUTES: Final = "It computes in memory."

ROWS: Final[tuple[CallRow, ...]] = (
    # --- sys
    answered("sys", "_current_frames _current_exceptions", "The threads of the host."),
    refused("sys", "remote_exec", "another process runs the code at an unpredictable time",
            PROCESS_INSTEAD),
    refused("sys", "addaudithook", "a hook can never be removed: later runs would see it",
            "sys.setprofile(function)  # for the calling thread"),
    refused("sys", "_setprofileallthreads _settraceallthreads", _ALL_THREADS_WHY,
            "sys.settrace(function)  # for the calling thread"),
    refused("sys", "activate_stack_trampoline deactivate_stack_trampoline _dump_tracelets",
            WRITE_WHY, "python -X perf  # for the whole process, outside of the run"),
    refused("sys", "_baserepl", KEYBOARD_WHY, KEYBOARD_INSTEAD),
    answered("sys", "setswitchinterval setrecursionlimit set_int_max_str_digits setdlopenflags",
             _PUT_BACK),
    harmless("sys", "getswitchinterval getrecursionlimit get_int_max_str_digits getdlopenflags",
             _SETTING),
    harmless("sys", "audit breakpointhook __breakpointhook__ displayhook __displayhook__ exception"
             " exc_info excepthook __excepthook__ unraisablehook __unraisablehook__ exit"
             " is_finalizing setprofile getprofile settrace gettrace call_tracing _getframe"
             " _getframemodulename set_coroutine_origin_tracking_depth"
             " get_coroutine_origin_tracking_depth set_asyncgen_hooks get_asyncgen_hooks",
             _OWN_STATE),
    harmless("sys", "getdefaultencoding getfilesystemencoding getfilesystemencodeerrors intern"
             " _is_interned _is_immortal is_stack_trampoline_active _is_gil_enabled"
             " _get_cpu_count_config is_remote_debug_enabled _clear_type_cache"
             " _clear_internal_caches _clear_type_descriptors", "It reads what the interpreter was"
             " built or started with, or empties a cache."),
    harmless("sys", "getallocatedblocks getunicodeinternedsize _getquickenedcount getrefcount"
             " getsizeof _debugmallocstats", _MEMORY),
    # --- the collector, tracebacks, the end
    answered("gc", "enable disable isenabled set_threshold get_threshold freeze unfreeze",
             "The run keeps what was set; it collects when the program asks, and at its end."),
    harmless("gc", "collect set_debug get_debug is_tracked is_finalized get_referrers get_referents"
             " get_freeze_count get_count get_objects get_stats", _MEMORY),
    answered("faulthandler", "enable disable is_enabled register unregister dump_traceback_later"
             " cancel_dump_traceback_later", "The run keeps what was set; the watchdog of foretold"
             " tells where a run hangs."),
    harmless("faulthandler", "dump_traceback dump_c_stack", "It prints to an open file."),
    refused("faulthandler", "_read_null _sigsegv _fatal_error_c_thread _sigabrt _sigfpe"
            " _stack_overflow", _CRASH_WHY, "raise SystemExit  # ends the run"),
    answered("atexit", "register unregister _clear _run_exitfuncs _ncallbacks",
             "The run keeps the functions, and does not call them at its end."),
    answered("_tracemalloc", "start stop", "It is as it was when the run has ended."),
    harmless("_tracemalloc", "is_tracing clear_traces _get_traces _get_object_traceback"
             " get_traceback_limit get_tracemalloc_memory get_traced_memory reset_peak", _MEMORY),
    # --- builtins and imports
    answered("builtins", "open", "The host's disk."),
    answered("builtins", "__import__", "A module that is imported in a run sees the host as it was"
             " when the world began."),
    refused("builtins", "input", KEYBOARD_WHY, KEYBOARD_INSTEAD),
    harmless("builtins", "eval exec compile breakpoint", _CODE),
    harmless("builtins", "print", "It writes to sys.stdout, which is the test's."),
    harmless("builtins", "abs all any ascii bin callable chr delattr dir divmod format getattr"
             " globals hasattr hash hex id isinstance issubclass iter aiter len locals max min next"
             " anext oct ord pow repr round setattr sorted sum vars __build_class__"
             " bool memoryview bytearray bytes classmethod complex dict enumerate filter float"
             " frozenset property int list map object range reversed set slice staticmethod str"
             " super tuple type zip copyright credits license quit exit help _", _COMPUTES),
    harmless("_imp", "extension_suffixes lock_held acquire_lock release_lock find_frozen"
             " get_frozen_object is_frozen_package create_builtin init_frozen is_builtin is_frozen"
             " _frozen_module_names _override_frozen_modules_for_tests exec_builtin"
             " _fix_co_filename source_hash _override_multi_interp_extensions_check",
             "It is a part of the import system."),
    answered("_imp", "create_dynamic", "Before a module in C begins, what it imports from the C"
             " library leads to the host."),
    harmless("_imp", "exec_dynamic", "It begins what `create_dynamic` has loaded."),
    answered("_locale", "setlocale", _PUT_BACK),
    harmless("_locale", "localeconv", _SETTING),
    harmless("_locale", "strcoll strxfrm nl_langinfo gettext dgettext dcgettext textdomain"
             " bindtextdomain bind_textdomain_codeset getencoding", "It reads what the C library"
             " has loaded of the language."),
    # --- C functions by name
    answered_or_refused("_ctypes", "CFuncPtr", "a function of the C library that asks the machine"
                        " bypasses the simulation", "the function of os, time or"
                        " socket that does the same"),
    refused("_ctypes", "call_function call_cdeclfunction", "it calls an address, and foretold"
            " cannot tell which function is there", "ctypes.CDLL(path).function"),
    harmless("_ctypes", "get_errno set_errno POINTER pointer _unpickle buffer_info resize dlopen"
             " dlclose dlsym alignment sizeof byref addressof PyObj_FromPtr Py_INCREF Py_DECREF"
             " Structure Union _Pointer Array _SimpleCData CField", "It makes or measures an object"
             " in memory, or loads a library: what is called there is refused or not by itself."),
    # --- OpenSSL, and what is rare
    answered("_ssl", "RAND_bytes RAND_pseudo_bytes", "Bytes of the tape."),
    answered("_ssl", "_SSLContext _SSLSocket", "Over sockets of the simulated network."),
    harmless("_ssl", "RAND_add RAND_status get_default_verify_paths txt2obj nid2obj MemoryBIO"
             " SSLSession Certificate _test_decode_cert enum_certificates enum_crls", _COMPUTES),
    answered("_sqlite3", "connect Connection Cursor Blob", "The host's disk, by SQLite's own"
             " interface for file systems."),
    harmless("_sqlite3", "adapt complete_statement enable_callback_tracebacks enable_shared_cache"
             " register_adapter register_converter PrepareProtocol Row", _OWN_STATE),
    refused("_tkinter", "create", _TERMINAL_WHY, "leave the window out of the run"),
    harmless("_tkinter", "_flatten setbusywaitinterval getbusywaitinterval TkappType TkttType"
             " Tcl_Obj", "Without an application it does nothing."),
    refused("_curses", "initscr setupterm", _TERMINAL_WHY, "leave the screen out of the run"),
    refused("nis", "match cat maps get_default_domain", "the real network answers at"
            " unpredictable times, and not always the same", "pwd.getpwnam(name)"),
    refused("ossaudiodev", "open openmixer", PROCESS_WHY, "leave the sound out of the run"),
    answered_or_refused("_remote_debugging", "RemoteUnwinder", PROCESS_WHY, PROCESS_INSTEAD),
    harmless("_remote_debugging", "TaskInfo FrameInfo CoroInfo ThreadInfo AwaitedInfo",
             "It is a type of results."),
)  # fmt: skip

ONLY_AFTER: Final = {"_curses": "initscr setupterm"}
"""Modules whose other functions raise until one of these was called."""

_DATA_MODULES: Final = words(
    "_abc _ast _bisect _bz2 _codecs _codecs_cn _codecs_hk _codecs_iso2022 _codecs_jp _codecs_kr"
    " _codecs_tw _collections _csv _decimal _elementtree _functools _heapq _json _lzma"
    " _multibytecodec _opcode _operator _pickle _sre _stat _statistics _string _struct _suggestions"
    " _symtable _sysconfig _tokenize _types _typing _warnings _weakref array audioop binascii cmath"
    " errno itertools marshal math pyexpat unicodedata zlib"
)
_DIGESTS: Final = words("_blake2 _crypt _hashlib _hmac _md5 _sha1 _sha2 _sha256 _sha3 _sha512")
_BETWEEN: Final = ("_interpchannels", "_interpqueues", "_xxinterpchannels")
WHOLE: Final[dict[str, str]] = {
    **dict.fromkeys(sorted(_DATA_MODULES), "It works on data in memory."),
    **dict.fromkeys(sorted(_DIGESTS), "It computes digests of what it is given."),
    "_asyncio": "It keeps tasks and futures; the loop is the world's.",
    "_contextvars": "It keeps variables of the calling task.",
    "_queue": "It waits by a lock, which waits in virtual time.",
    "_zoneinfo": "It computes with time zones, which Python code has read.",
    "_lsprof": "It measures for a person who profiles; the program gets nothing of it.",
    "_curses_panel": "Without a screen, which is refused, it does nothing.",
    **dict.fromkeys(
        _BETWEEN,
        "Objects between interpreters of one process: no run can make another interpreter.",
    ),
}
"""Modules in C none of whose names asks the machine for anything, with the reason."""

NOT_FOR_PROGRAMS: Final = (
    "_test", "_ctypes_test", "_xxtestfuzz", "xxlimited", "xxsubtype",
)  # fmt: skip
"""How the names of modules begin that CPython has for its own tests alone."""
