"""Every test of CPython that our loop is excused from, and why.

One line names one test, or one test in all classes that share it (`*`). Pythons are named where it
exists on some only. The table stays honest: an excluded test is run all the same, and if it passes,
or is no longer there, our own test fails until the line is deleted.
"""

from __future__ import annotations

import fnmatch
import functools
import sys
from typing import NamedTuple

PYTHONS = ("3.11", "3.12", "3.13", "3.14")
THIS_PYTHON = "{}.{}".format(*sys.version_info)

TABLE = {
    "starts processes": """
        test_base_events.BaseEventLoopTests.test_env_var_debug
        test_events.SelectEventLoopTests.test_subprocess_close_after_finish
        test_events.SelectEventLoopTests.test_subprocess_close_client_stream
        test_events.SelectEventLoopTests.test_subprocess_exec
        test_events.SelectEventLoopTests.test_subprocess_exitcode
        test_events.SelectEventLoopTests.test_subprocess_interactive
        test_events.SelectEventLoopTests.test_subprocess_kill
        test_events.SelectEventLoopTests.test_subprocess_send_signal
        test_events.SelectEventLoopTests.test_subprocess_shell
        test_events.SelectEventLoopTests.test_subprocess_stderr
        test_events.SelectEventLoopTests.test_subprocess_stderr_redirect_to_stdout
        test_events.SelectEventLoopTests.test_subprocess_terminate
        test_events.SelectEventLoopTests.test_subprocess_wait_no_same_group
        test_events.*.test_get_event_loop_new_process
        test_streams.StreamTests.test_read_all_from_pipe_reader 3.11 3.12 3.13
        test_unix_events.TestFork.test_fork_asyncio_run 3.12 3.13 3.14
        test_unix_events.TestFork.test_fork_asyncio_subprocess 3.12 3.13 3.14
        test_unix_events.TestFork.test_fork_not_share_current_task 3.14
        test_unix_events.TestFork.test_fork_not_share_event_loop 3.12 3.13 3.14
        test_unix_events.TestFork.test_fork_signal_handling 3.12 3.13 3.14
    """,
    "counts on real signals and timers of the process, which are fenced in a run": """
        test_events.SelectEventLoopTests.test_signal_handling_args
        test_events.SelectEventLoopTests.test_signal_handling_while_selecting
    """,
    "mocks the signal module; handlers belong to the host in a world": """
        test_unix_events.SelectorEventLoopSignalTests.test_add_signal_handler
        test_unix_events.SelectorEventLoopSignalTests.test_add_signal_handler_install_error
        test_unix_events.SelectorEventLoopSignalTests.test_add_signal_handler_install_error2
        test_unix_events.SelectorEventLoopSignalTests.test_add_signal_handler_install_error3
        test_unix_events.SelectorEventLoopSignalTests.test_add_signal_handler_setup_error
        test_unix_events.SelectorEventLoopSignalTests.test_close
        test_unix_events.SelectorEventLoopSignalTests.test_remove_signal_handler
        test_unix_events.SelectorEventLoopSignalTests.test_remove_signal_handler_2
        test_unix_events.SelectorEventLoopSignalTests.test_remove_signal_handler_error
        test_unix_events.SelectorEventLoopSignalTests.test_remove_signal_handler_error2
    """,
    "asks the selector (_selector, _process_events) or mocks it; nothing selects in a world": """
        test_base_events.BaseEventLoopTests.test__run_once
        test_base_events.BaseEventLoopTests.test_custom_run_forever_integration 3.13 3.14
        test_base_events.BaseEventLoopTests.test_not_implemented
        test_base_events.BaseEventLoopTests.test_run_forever_pre_stopped
        test_base_events.BaseEventLoopTests.test_single_selecter_event_callback_after_stopping
        test_base_events.BaseEventLoopWithSelectorTests.test_create_server_soreuseport_only_defined
    """,
    "looks into _scheduled, the private heap of the stock loop; ours is _alarms": """
        test_base_events.BaseEventLoopTests.test__run_once_cancelled_event_cleanup
        test_base_events.BaseEventLoopTests.test__run_once_schedule_handle
        test_base_events.BaseEventLoopTests.test_call_later
    """,
    "counts the descriptors of the self-pipe, and we have none": """
        test_events.SelectEventLoopTests.test_internal_fds
    """,
    "replaces socket.getaddrinfo or getnameinfo, and our loop asks the world's names itself": """
        test_base_events.BaseEventLoopWithSelectorTests.test_create_connection_bluetooth
        test_base_events.BaseEventLoopWithSelectorTests.test_create_datagram_endpoint_no_addrinfo
        test_base_events.BaseEventLoopWithSelectorTests.test_getnameinfo
    """,
    "opens a real terminal: a world has sockets and pipes only": """
        test_events.SelectEventLoopTests.test_bidirectional_pty
        test_events.SelectEventLoopTests.test_read_pty_output
        test_events.SelectEventLoopTests.test_write_pty
    """,
    "wants a loop without sendfile; ours has asyncio's own for selectors": """
        test_base_events.BaseLoopSockSendfileTests.test__sock_sendfile_native_failure
        test_base_events.BaseLoopSockSendfileTests.test_sock_sendfile_no_fallback
    """,
    "starts threads, and is run outside of a world": """
        test_futures.*FutureTests.test_wrap_future
        test_futures.*.test_wrap_future_use_global_loop
        test_futures.*.test_wrap_future_use_running_loop
        test_futures.*.test_wrap_future_without_loop
        test_tasks.RunCoroutineThreadsafeTests.test_run_coroutine_threadsafe
        test_tasks.RunCoroutineThreadsafeTests.test_run_coroutine_threadsafe_task_cancelled
        test_tasks.RunCoroutineThreadsafeTests.test_run_coroutine_threadsafe_task_factory_exception
        test_tasks.RunCoroutineThreadsafeTests.test_run_coroutine_threadsafe_with_exception
        test_tasks.RunCoroutineThreadsafeTests.test_run_coroutine_threadsafe_with_timeout
    """,
    "puts the Python form in the place of asyncio's Task; our loop makes tasks of its own": """
        test_events.TestPyGetEventLoop.test_get_event_loop_returns_running_loop 3.14
        test_events.TestPyGetEventLoop.test_get_event_loop_returns_running_loop2 3.14
        test_events.TestPyGetEventLoop.test_get_running_loop_already_running 3.14
        test_graph.TestCallStackPy.* 3.14
    """,
    "wants the time of TestLoop to move once more after stop(); ours moves only while it waits": """
        test_tasks.*.test_stop_while_run_in_complete
    """,
}


class Exclusion(NamedTuple):
    """One line of the table."""

    pattern: str
    reason: str
    pythons: tuple[str, ...] = PYTHONS

    def matches(self, test_id: str) -> bool:
        return fnmatch.fnmatchcase(test_id, self.pattern)

    def is_about(self, module: str) -> bool:
        return self.pattern.startswith(f"{module}.")


def parse(table: dict[str, str]) -> list[Exclusion]:
    """The lines of a table."""
    found = []
    for reason, lines in table.items():
        for line in lines.strip().splitlines():
            pattern, *pythons = line.split()
            found.append(Exclusion(pattern, reason, tuple(pythons) or PYTHONS))
    return found


@functools.cache
def exclusions_here() -> tuple[Exclusion, ...]:
    """What is excluded on this Python."""
    return tuple(entry for entry in parse(TABLE) if THIS_PYTHON in entry.pythons)


def excluded_here(test_id: str) -> bool:
    """Whether a test is excluded on this Python."""
    return any(entry.matches(test_id) for entry in exclusions_here())
