"""The rows of sockets, selectors, signals, clocks, threads, processes and the other C modules that
ask the system for something."""

from __future__ import annotations

from typing import Final

from foretold.kernel.syscalls.of_os import PROCESS_INSTEAD, PROCESS_WHY, SIGNAL_WHY, WRITE_WHY
from foretold.kernel.syscalls.rows import CallRow, answered, answered_or_refused, harmless, refused
from foretold.kernel.syscalls.showing import show_process, show_signal, show_start, show_two

SIGNAL_INSTEAD: Final = "task.cancel()  # what a handler of SIGTERM would do"
WAIT_WHY: Final = "it waits in real time for a real descriptor, while virtual time stands still"
SOCKET_WHY: Final = "the real network answers at unpredictable times, and not always the same"
NAMES_WHY: Final = "the answer depends on the real network and on this machine's settings"
STREAM: Final = "await asyncio.open_connection(host, port)  # the simulated network"
THREAD_WHY: Final = "the operating system decides when a real thread runs, not the tape"
INTERPRETER_WHY: Final = (
    "no interpreter can be made while builtins are replaced, nor can its threads be simulated"
)
INTERPRETER_INSTEAD: Final = "asyncio.to_thread(work)  # a thread of the world"
_CLOCK_WHY: Final = "it sets the clock of the real machine"
_ARGUMENTS: Final = "It computes from its arguments alone."
_RESULTS: Final = "It is a type of results."
_SETTING: Final = "It reads a setting of the interpreter, which is put back when a run ends."
_PUT_BACK: Final = "It sets a number of the interpreter, which is put back when the run ends."
_USERS: Final = "It reads the list of users, which no run changes."
_EDITOR: Final = "It changes the memory of the line editor; reading the keyboard is refused."
_OBJECTS: Final = (
    "Objects between interpreters of one process: no run can make another interpreter."
)

ROWS: Final[tuple[CallRow, ...]] = (
    # --- sockets and selectors
    answered("_socket", "gethostname", "The host's name."),
    answered("_socket", "if_nameindex if_nametoindex if_indextoname", "A host has lo and eth0."),
    answered("_socket", "getservbyname getservbyport getprotobyname",
             "A list of the usual ones, everywhere alike."),
    answered("_socket", "close dup", "The host's table of descriptors."),
    answered("_socket", "socket SocketType", "A socket of the simulated network; one that was made"
             " before the run can neither send nor receive."),
    answered_or_refused("_socket", "socketpair", SOCKET_WHY, STREAM),
    answered_or_refused("_socket", "getaddrinfo gethostbyname gethostbyname_ex gethostbyaddr"
                        " getnameinfo", NAMES_WHY,
                        "await loop.getaddrinfo(host, port)  # the simulated network", show_two),
    refused("_socket", "sethostname", "it renames the real machine",
            'world.host("name")  # its name is what socket.gethostname() says there'),
    harmless("_socket", "ntohs ntohl htons htonl inet_aton inet_ntoa inet_pton inet_ntop CMSG_LEN"
             " CMSG_SPACE", _ARGUMENTS),
    harmless("_socket", "getdefaulttimeout", _SETTING),
    answered("_socket", "setdefaulttimeout", _PUT_BACK),
    answered_or_refused("select", "select poll", WAIT_WHY, STREAM),
    answered("select", "epoll", "The host's table of descriptors."),
    # --- signals
    answered_or_refused("_signal", "signal raise_signal", SIGNAL_WHY, SIGNAL_INSTEAD, show_signal),
    answered("_signal", "getsignal", "The host's handlers."),
    answered("_signal", "sigpending getitimer", "No signal and no alarm waits on a host."),
    refused("_signal", "siginterrupt", SIGNAL_WHY, SIGNAL_INSTEAD, show_signal),
    refused("_signal", "setitimer alarm", "the real clock sends this signal",
            "async with asyncio.timeout(seconds): …  # in virtual time"),
    refused("_signal", "pthread_kill pidfd_send_signal set_wakeup_fd pthread_sigmask", SIGNAL_WHY,
            SIGNAL_INSTEAD),
    refused("_signal", "pause sigwait sigwaitinfo sigtimedwait", SIGNAL_WHY,
            "await asyncio.Event().wait()"),
    harmless("_signal", "default_int_handler strsignal valid_signals", _ARGUMENTS),
    harmless("_signal", "struct_siginfo", _RESULTS),
    # --- clocks
    answered("time", "time time_ns monotonic monotonic_ns perf_counter perf_counter_ns process_time"
             " process_time_ns thread_time thread_time_ns clock_gettime clock_gettime_ns gmtime"
             " localtime asctime ctime strftime sleep", "The host's clock."),
    refused("time", "clock_settime clock_settime_ns", _CLOCK_WHY,
            "world.clock.set_time(epoch_s)  # or world.clock.skew(seconds)"),
    harmless("time", "mktime strptime", _ARGUMENTS + " And from the time zone."),
    answered("time", "tzset", "The zone of the host's environment, until the run ends."),
    harmless("time", "clock_getres get_clock_info", "It describes a clock; it does not read it."),
    harmless("time", "pthread_getcpuclockid", "It gives the number of a clock. The host answers"
             " reads of that clock."),
    harmless("time", "struct_time", _RESULTS),
    answered("_datetime", "datetime", "The host's clock: now, utcnow, today."),
    harmless("_datetime", "date time timedelta tzinfo timezone", "It computes; date.today asks"
             " time.time."),
    # --- threads and interpreters
    answered_or_refused("_thread", "start_new_thread start_new start_joinable_thread", THREAD_WHY,
                        "asyncio.create_task(work())  # a coroutine", show_start),
    answered("_thread", "interrupt_main", "The host's main thread gets the signal."),
    answered("_thread", "_count", "The threads of the host."),
    answered("_thread", "lock LockType RLock allocate_lock allocate _ThreadHandle"
             " _make_thread_handle", "Who waits for it waits in virtual time."),
    answered("_thread", "_set_sentinel", "A lock that is released when the host's thread ends."),
    answered("_thread", "set_name", "The host's thread; the real one keeps its name."),
    harmless("_thread", "_shutdown", "It is the end of the interpreter, which calls it."),
    harmless("_thread", "exit exit_thread", "It raises SystemExit."),
    harmless("_thread", "get_ident get_native_id", "It gives a number of the system's, which"
             " differs from process to process."),
    harmless("_thread", "_get_main_thread_ident _get_name _is_main_interpreter"
             " daemon_threads_allowed", "It reads what the interpreter has noted."),
    answered("_thread", "stack_size", _PUT_BACK),
    harmless("_thread", "_local", "It makes an object for the calling thread."),
    harmless("_thread", "_excepthook _ExceptHookArgs", "It prints to sys.stderr."),
    refused("_interpreters", "create", INTERPRETER_WHY, INTERPRETER_INSTEAD),
    refused("_interpreters", "exec run_string run_func call destroy set___main___attrs",
            THREAD_WHY, INTERPRETER_INSTEAD),
    harmless("_interpreters", "new_config get_config whence list_all get_current get_main"
             " is_running is_shareable incref decref capture_exception CrossInterpreterBufferView"
             " __CrossInterpreterBufferView__", _OBJECTS),
    refused("_xxsubinterpreters", "create", INTERPRETER_WHY, INTERPRETER_INSTEAD),
    refused("_xxsubinterpreters", "run_string destroy", THREAD_WHY, INTERPRETER_INSTEAD),
    harmless("_xxsubinterpreters", "list_all get_current get_main is_running is_shareable"
             " channel_create channel_destroy channel_list_all channel_list_interpreters"
             " channel_send channel_recv channel_close channel_release _channel_id ChannelID"
             " InterpreterID", _OBJECTS),
    # --- processes and what they share
    refused("_posixsubprocess", "fork_exec", PROCESS_WHY, PROCESS_INSTEAD, show_process),
    answered("_multiprocessing", "SemLock", "A semaphore without a name, in this process alone; who"
             " waits for it waits in virtual time."),
    refused("_multiprocessing", "sem_unlink", "it removes a semaphore of the real machine",
            "threading.Lock()  # a host is one process"),
    answered_or_refused("_posixshmem", "shm_open shm_unlink", WRITE_WHY,
                        "mmap.mmap(-1, size) or bytearray(size)  # a host is one process"),
    # --- files
    answered("_io", "open open_code", "The host's disk."),
    answered("_io", "FileIO", "The program's own files can be read by it; else it is refused."),
    harmless("_io", "text_encoding", _ARGUMENTS),
    harmless("_io", "_IOBase _RawIOBase _BufferedIOBase _TextIOBase IncrementalNewlineDecoder"
             " BytesIO StringIO BufferedReader BufferedWriter BufferedRWPair BufferedRandom"
             " TextIOWrapper _BytesIOBuffer", "It works in memory, or on a file that was opened"
             " elsewhere."),
    # --- users, the log, the terminal
    harmless("pwd", "getpwuid getpwnam getpwall", _USERS),
    harmless("pwd", "struct_passwd", _RESULTS),
    harmless("grp", "getgrgid getgrnam getgrall", _USERS),
    harmless("grp", "struct_group", _RESULTS),
    refused("spwd", "getspnam getspall", "it reads the passwords of the real machine",
            "give the program a user of the test's own"),
    harmless("spwd", "struct_spwd", _RESULTS),
    answered("syslog", "syslog openlog closelog setlogmask", "No daemon of a host listens: what is"
             " logged is dropped."),
    harmless("syslog", "LOG_MASK LOG_UPTO", _ARGUMENTS),
    refused("readline", "read_init_file read_history_file write_history_file append_history_file",
            WRITE_WHY, "open(path).read()  # the host's disk"),
    harmless("readline", "parse_and_bind get_line_buffer insert_text redisplay get_history_item"
             " get_current_history_length set_history_length get_history_length set_completer"
             " get_completer get_completion_type get_begidx get_endidx set_completer_delims"
             " set_auto_history add_history remove_history_item replace_history_item"
             " get_completer_delims set_completion_display_matches_hook set_startup_hook"
             " set_pre_input_hook clear_history", _EDITOR),
    # --- randomness
    answered("_random", "Random", "Seeds that nobody gives come from the tape."),
    refused("_uuid", "generate_time_safe", "it reads the real clock and the real network card",
            "uuid.uuid1()  # from the host's clock"),
)  # fmt: skip
