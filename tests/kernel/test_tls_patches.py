"""TLS inside a run is the same to the byte, and outside it is as random as ever."""

from __future__ import annotations

import contextlib
import ssl
import threading
from pathlib import Path

import pytest
import trustme

import foretold
from foretold.kernel.tls_patches import TlsRandom
from tests.kernel.fake_computer import FakeComputer, a_run


def hello() -> bytes:
    """The first message of a handshake: mostly random numbers."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    connection = context.wrap_bio(incoming, outgoing, server_hostname="api")
    with contextlib.suppress(ssl.SSLWantReadError):
        connection.do_handshake()
    return outgoing.read()


def test_openssl_can_be_led_on_this_python() -> None:
    """Else sizes may differ between runs, as docs/limits.md says."""
    assert TlsRandom().works


def test_a_handshake_repeats_inside_a_run() -> None:
    """Client random, session id and key share all come from the tape."""
    seen = set()
    for _ in range(3):
        with a_run(FakeComputer(first_byte=7)):
            seen.add(hello())
    assert len(seen) == 1


def test_another_tape_gives_another_handshake() -> None:
    """It is the tape that decides, not a constant."""
    with a_run(FakeComputer(first_byte=1)):
        one = hello()
    with a_run(FakeComputer(first_byte=2)):
        other = hello()
    assert one != other


def test_outside_it_is_random_again() -> None:
    """Nothing is left behind: two handshakes differ before and after a run."""
    with a_run(FakeComputer()):
        hello()
    assert hello() != hello()


def test_other_threads_keep_real_randomness() -> None:
    """The source is one for the process; only the thread of the run may get foreseeable bytes."""
    seen: list[bytes] = []
    ready, done = threading.Event(), threading.Event()

    def other() -> None:
        ready.wait()
        seen.append(hello())
        done.set()

    thread = threading.Thread(target=other)
    thread.start()
    with a_run(FakeComputer(first_byte=7)):
        inside = hello()
        ready.set()
        done.wait()
    thread.join()
    assert seen[0] != inside


def test_certificates_may_lie_on_the_hosts_disk() -> None:
    """OpenSSL opens files by itself. What the program has written in the run is found all the same;
    real files are found as before."""
    authority = trustme.CA()
    issued = authority.issue_cert("host")

    def main() -> int:
        Path("own.pem").write_bytes(issued.private_key_and_cert_chain_pem.bytes())
        Path("ca.pem").write_bytes(authority.cert_pem.bytes())
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain("own.pem")
        context.load_verify_locations(cafile=Path("ca.pem"))
        with pytest.raises(FileNotFoundError):
            context.load_cert_chain("missing.pem")
        return context.cert_store_stats()["x509_ca"]

    assert foretold.run(main).value == 1
    assert "load_cert_chain" not in vars(ssl.SSLContext)


def test_keys_are_not_logged_to_a_real_file(tmp_path: Path) -> None:
    """It would be written past the host's disk."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    path = str(tmp_path / "keys")

    def main() -> None:
        assert not context.keylog_filename
        context.keylog_filename = path

    with pytest.raises(foretold.EscapedWorld, match="keylog_filename"):
        foretold.run(main)
    assert not list(tmp_path.iterdir())
    main()
    assert list(tmp_path.iterdir()) == [Path(path)]
