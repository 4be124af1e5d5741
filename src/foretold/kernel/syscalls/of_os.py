"""The rows of `os`, which is `posix` in C, and of `fcntl`, `resource`, `termios`, `mmap`."""

from __future__ import annotations

from typing import Final

from foretold.kernel.syscalls.rows import CallRow, answered, answered_or_refused, harmless, refused

PROCESS_WHY: Final = "another process runs in real time, and its answers are not on the tape"
PROCESS_INSTEAD: Final = 'world.host("worker").start(main)  # a process of the simulated world'
SIGNAL_WHY: Final = (
    "a real signal reaches this process at a real moment, and reaches the test runner too"
)
WRITE_WHY: Final = "what one run leaves on the real disk is found by the next run"
WRITE_INSTEAD: Final = "keep it in memory: io.BytesIO() or io.StringIO()"
_TERMINAL_WHY: Final = "a host has no terminal, and what a real one says is not on the tape"
_ARGUMENTS: Final = "It computes from its arguments alone."
_KERNEL_WHY: Final = "it changes what the test runner's own process may see or do"
_DAEMON_INSTEAD: Final = "leave it out of the run: each host is a separate machine already"

FILES_BY_PATH: Final = (
    "open stat lstat access listdir scandir readlink statvfs mkdir rmdir remove unlink rename"
    " replace link symlink truncate chmod chown lchown utime chdir getcwd getcwdb"
    " getxattr setxattr removexattr listxattr pathconf"
)
FILES_BY_DESCRIPTOR: Final = (
    "close read write pread pwrite readv writev preadv pwritev lseek fstat fsync fdatasync"
    " ftruncate dup dup2 isatty fchmod fchown fchdir fstatvfs posix_fallocate posix_fadvise"
    " sendfile copy_file_range get_inheritable set_inheritable get_blocking set_blocking lockf"
    " fpathconf"
)
FILES_OF_PROCESS: Final = "sync umask"

ROWS: Final[tuple[CallRow, ...]] = (
    # --- files and descriptors
    answered("posix", FILES_BY_PATH, "The host's disk, and the files of its unix sockets."),
    answered("posix", FILES_BY_DESCRIPTOR, "The host's table of descriptors."),
    answered("posix", FILES_OF_PROCESS, "The host's disk."),
    answered("posix", "pipe pipe2 eventfd eventfd_read eventfd_write memfd_create closerange splice"
             " readinto", "The host's table of descriptors."),
    answered("posix", "ttyname get_terminal_size tcgetpgrp tcsetpgrp device_encoding",
             "No descriptor of a host is a terminal."),
    refused("posix", "mkfifo mknod", WRITE_WHY,
            "os.pipe() inside the run, or a socket: both are simulated"),
    refused("posix", "openpty login_tty posix_openpt grantpt unlockpt ptsname", _TERMINAL_WHY,
            "os.pipe() or socket.socketpair() inside the run: their descriptors are simulated"),
    refused("posix", "timerfd_create timerfd_settime timerfd_settime_ns timerfd_gettime"
            " timerfd_gettime_ns", "it waits in real time, while virtual time stands still",
            "loop.call_later(seconds, callback)  # or asyncio.sleep(seconds)"),
    # --- processes and signals
    refused("posix", "fork forkpty system posix_spawn posix_spawnp execv execve",
            PROCESS_WHY, PROCESS_INSTEAD),
    answered("posix", "pidfd_open", "A host's kernel has no such descriptors: ENOSYS."),
    refused("posix", "_exit abort", "it ends the test runner, not only the simulated process",
            "raise SystemExit  # ends the run"),
    answered_or_refused("posix", "kill killpg", SIGNAL_WHY,
                        "task.cancel()  # to end a part of the program"),
    answered("posix", "wait wait3 wait4 waitid waitpid", "A host's process has no children."),
    # --- who and where the process is
    answered("posix", "getpid getppid getpgrp getpgid setpgid setpgrp getsid setsid",
             "The host's process has numbers of its own."),
    answered("posix", "getuid geteuid getgid getegid getresuid getresgid getgroups getlogin"
             " setuid seteuid setreuid setresuid setgid setegid setregid setresgid setgroups"
             " initgroups", "Each host has its user, at first the one who runs the tests; it may"
             " become any other, as root may."),
    answered("posix", "nice getpriority setpriority sched_getparam sched_setparam"
             " sched_getscheduler sched_setscheduler sched_rr_get_interval sched_getaffinity"
             " sched_setaffinity", "The host keeps what was set; the tape decides who runs."),
    answered("posix", "sched_yield", "Another thread of the host may go on."),
    answered("posix", "putenv unsetenv _create_environ", "The host's environment."),
    refused("posix", "chroot setns unshare", _KERNEL_WHY, _DAEMON_INSTEAD),
    # --- the machine
    answered("posix", "uname cpu_count getloadavg sysconf",
             "The host's machine, everywhere alike."),
    answered("posix", "times", "The host's clock."),
    answered("posix", "urandom getrandom", "Bytes of the tape."),
    harmless("posix", "confstr ctermid sched_get_priority_max sched_get_priority_min",
             "It gives a constant of the C library."),
    harmless("posix", "getgrouplist", "It reads the list of users, which no run changes."),
    # --- neither
    harmless("posix", "fspath strerror major minor makedev WCOREDUMP WIFCONTINUED WIFSTOPPED"
             " WIFSIGNALED WIFEXITED WEXITSTATUS WTERMSIG WSTOPSIG waitstatus_to_exitcode"
             " _path_normpath _path_splitroot_ex", _ARGUMENTS),
    harmless("posix", "waitid_result stat_result statvfs_result sched_param terminal_size DirEntry"
             " times_result uname_result", "It is a type of results."),
    harmless("posix", "register_at_fork", "It notes a function for a fork, and no run can fork."
             " Modules do so when they are imported."),
    harmless("posix", "_inputhook _is_inputhook_installed", "Only the interactive interpreter has"
             " such a hook, and reading the keyboard is refused."),
    # --- fcntl, resource, termios, mmap
    answered("fcntl", "fcntl flock lockf ioctl", "The host's table of descriptors."),
    answered("resource", "getrusage getrlimit setrlimit prlimit",
             "The host keeps what was set; time used is virtual."),
    harmless("resource", "getpagesize", "It gives a constant of the processor."),
    harmless("resource", "struct_rusage", "It is a type of results."),
    answered("termios", "tcgetattr tcsetattr tcsendbreak tcdrain tcflush tcflow tcgetwinsize"
             " tcsetwinsize", "No descriptor of a host is a terminal."),
    answered("mmap", "mmap", "The host's disk; a map without a file is memory, and real."),
)  # fmt: skip
