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

PYTHONS = ("3.11", "3.12", "3.13")
THIS_PYTHON = "{}.{}".format(*sys.version_info)

TABLE = {
    "opens sockets, pipes or terminals (real or mocked ones), which stock loops alone watch": """
        test_base_events.BaseEventLoopWithSelectorTests.test_accept_connection_exception
        test_base_events.BaseEventLoopWithSelectorTests.test_accept_connection_retry
        test_base_events.BaseEventLoopWithSelectorTests.test_create_connection_bluetooth
        test_base_events.BaseEventLoopWithSelectorTests.test_create_connection_ip_addr
        test_base_events.BaseEventLoopWithSelectorTests.test_create_connection_ipv6_scope
        test_base_events.BaseEventLoopWithSelectorTests.test_create_connection_no_inet_pton
        test_base_events.BaseEventLoopWithSelectorTests.test_create_connection_service_name
        test_base_events.BaseEventLoopWithSelectorTests.test_create_datagram_endpoint_allow_broadcast
        test_base_events.BaseEventLoopWithSelectorTests.test_create_datagram_endpoint_existing_sock_unix
        test_base_events.BaseEventLoopWithSelectorTests.test_create_datagram_endpoint_ip_addr
        test_base_events.BaseEventLoopWithSelectorTests.test_create_datagram_endpoint_no_addrinfo
        test_base_events.BaseEventLoopWithSelectorTests.test_create_datagram_endpoint_sock
        test_base_events.BaseEventLoopWithSelectorTests.test_create_datagram_endpoint_sock_unix
        test_base_events.BaseEventLoopWithSelectorTests.test_create_datagram_endpoint_sockopts
        test_base_events.BaseEventLoopWithSelectorTests.test_create_server_ipv6
        test_base_events.BaseEventLoopWithSelectorTests.test_create_server_soreuseport_only_defined
        test_base_events.BaseEventLoopWithSelectorTests.test_create_server_stream_bittype
        test_base_events.BaseLoopSockSendfileTests.test__sock_sendfile_native_failure
        test_base_events.BaseLoopSockSendfileTests.test_sock_sendfile_fallback
        test_base_events.BaseLoopSockSendfileTests.test_sock_sendfile_fallback_offset_and_count
        test_base_events.BaseLoopSockSendfileTests.test_sock_sendfile_no_fallback
        test_events.SelectEventLoopTests.test_bidirectional_pty
        test_events.SelectEventLoopTests.test_connect_accepted_socket
        test_events.SelectEventLoopTests.test_create_connection
        test_events.SelectEventLoopTests.test_create_connection_local_addr
        test_events.SelectEventLoopTests.test_create_connection_local_addr_in_use
        test_events.SelectEventLoopTests.test_create_connection_local_addr_nomatch_family
        test_events.SelectEventLoopTests.test_create_connection_local_addr_skip_different_family
        test_events.SelectEventLoopTests.test_create_datagram_endpoint
        test_events.SelectEventLoopTests.test_create_datagram_endpoint_ipv6
        test_events.SelectEventLoopTests.test_create_datagram_endpoint_sock
        test_events.SelectEventLoopTests.test_create_server
        test_events.SelectEventLoopTests.test_create_server_addr_in_use
        test_events.SelectEventLoopTests.test_create_server_dual_stack
        test_events.SelectEventLoopTests.test_create_server_reuse_port
        test_events.SelectEventLoopTests.test_create_server_sock
        test_events.SelectEventLoopTests.test_create_server_ssl
        test_events.SelectEventLoopTests.test_create_server_ssl_match_failed
        test_events.SelectEventLoopTests.test_create_server_ssl_verified
        test_events.SelectEventLoopTests.test_create_server_ssl_verify_failed
        test_events.SelectEventLoopTests.test_create_server_trsock 3.12 3.13
        test_events.SelectEventLoopTests.test_create_ssl_connection
        test_events.SelectEventLoopTests.test_create_ssl_unix_connection
        test_events.SelectEventLoopTests.test_create_unix_connection
        test_events.SelectEventLoopTests.test_create_unix_server
        test_events.SelectEventLoopTests.test_create_unix_server_path_socket_error
        test_events.SelectEventLoopTests.test_create_unix_server_ssl
        test_events.SelectEventLoopTests.test_create_unix_server_ssl_verified
        test_events.SelectEventLoopTests.test_create_unix_server_ssl_verify_failed
        test_events.SelectEventLoopTests.test_datagram_send_to_non_listening_address 3.13
        test_events.SelectEventLoopTests.test_prompt_cancellation
        test_events.SelectEventLoopTests.test_read_pipe
        test_events.SelectEventLoopTests.test_read_pty_output
        test_events.SelectEventLoopTests.test_reader_callback
        test_events.SelectEventLoopTests.test_remove_fds_after_closing
        test_events.SelectEventLoopTests.test_server_close
        test_events.SelectEventLoopTests.test_ssl_connect_accepted_socket
        test_events.SelectEventLoopTests.test_unclosed_pipe_transport
        test_events.SelectEventLoopTests.test_write_pipe
        test_events.SelectEventLoopTests.test_write_pipe_disconnect_on_close
        test_events.SelectEventLoopTests.test_write_pty
        test_events.SelectEventLoopTests.test_writer_callback
        test_events.TestServer.test_get_loop
        test_sslproto.SelectorStartTLSTests.test_create_connection_memory_leak
        test_sslproto.SelectorStartTLSTests.test_create_connection_ssl_failed_certificate
        test_sslproto.SelectorStartTLSTests.test_create_connection_ssl_slow_handshake
        test_sslproto.SelectorStartTLSTests.test_handshake_timeout
        test_sslproto.SelectorStartTLSTests.test_start_tls_client_buf_proto_1
        test_sslproto.SelectorStartTLSTests.test_start_tls_client_corrupted_ssl
        test_sslproto.SelectorStartTLSTests.test_start_tls_client_reg_proto_1
        test_sslproto.SelectorStartTLSTests.test_start_tls_server_1
        test_sslproto.SelectorStartTLSTests.test_start_tls_slow_client_cancel
        test_streams.StreamTests.test_async_writer_api
        test_streams.StreamTests.test_async_writer_api_exception_after_close
        test_streams.StreamTests.test_drain_raises
        test_streams.StreamTests.test_eof_feed_when_closing_writer
        test_streams.StreamTests.test_loop_is_closed_resource_warnings
        test_streams.StreamTests.test_open_connection
        test_streams.StreamTests.test_open_connection_error
        test_streams.StreamTests.test_open_connection_no_loop_ssl
        test_streams.StreamTests.test_open_unix_connection
        test_streams.StreamTests.test_open_unix_connection_error
        test_streams.StreamTests.test_open_unix_connection_no_loop_ssl
        test_streams.StreamTests.test_read_all_from_pipe_reader
        test_streams.StreamTests.test_start_server
        test_streams.StreamTests.test_start_tls
        test_streams.StreamTests.test_start_unix_server
        test_streams.StreamTests.test_unclosed_resource_warnings
        test_streams.StreamTests.test_unclosed_server_resource_warnings 3.13
        test_streams.StreamTests.test_unhandled_cancel 3.13
        test_streams.StreamTests.test_unhandled_exception 3.13
        test_streams.StreamTests.test_unhandled_exceptions 3.11 3.12
        test_streams.StreamTests.test_wait_closed_on_close
        test_streams.StreamTests.test_wait_closed_on_close_with_unread_data
    """,
    "starts processes": """
        test_events.*.test_get_event_loop_new_process
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
    """,
    "handles signals, which are fenced in a run": """
        test_events.SelectEventLoopTests.test_add_signal_handler
        test_events.SelectEventLoopTests.test_signal_handling_args
        test_events.SelectEventLoopTests.test_signal_handling_while_selecting
    """,
    "starts threads: they arrive in a later version": """
        test_base_events.BaseEventLoopTests.test_asyncgen_finalization_by_gc_in_other_thread
        test_base_events.BaseEventLoopTests.test_check_thread
        test_base_events.BaseEventLoopTests.test_set_default_executor
        test_base_events.BaseEventLoopTests.test_shutdown_default_executor_timeout 3.13
        test_base_events.BaseEventLoopWithSelectorTests.test_getnameinfo
        test_events.PolicyTests.test_get_event_loop_thread
        test_events.SelectEventLoopTests.test_call_soon_threadsafe
        test_events.SelectEventLoopTests.test_run_in_executor
        test_events.SelectEventLoopTests.test_run_in_executor_cancel
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
    "asks the selector (_selector, _process_events), and we have none": """
        test_base_events.BaseEventLoopTests.test__run_once
        test_base_events.BaseEventLoopTests.test_custom_run_forever_integration 3.13
        test_base_events.BaseEventLoopTests.test_not_implemented
        test_base_events.BaseEventLoopTests.test_run_forever_pre_stopped
        test_base_events.BaseEventLoopTests.test_single_selecter_event_callback_after_stopping
        test_events.SelectEventLoopTests.test_timeout_rounding
    """,
    "looks into _scheduled, the private heap of the stock loop; ours is _alarms": """
        test_base_events.BaseEventLoopTests.test__run_once_cancelled_event_cleanup
        test_base_events.BaseEventLoopTests.test__run_once_schedule_handle
        test_base_events.BaseEventLoopTests.test_call_later
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
