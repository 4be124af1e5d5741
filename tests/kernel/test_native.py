"""Imports of C libraries lead to us while a session lasts, and are as before afterwards."""

from __future__ import annotations

import ctypes
import socket
import subprocess
import sys

import psycopg
import psycopg2
import psycopg2._psycopg
import pytest

from foretold.kernel.native import images, libpq
from foretold.kernel.patches import patches
from tests.kernel.pages import rights_at

SYSTEM_LIBPQ = "libpq.so.5"


def words() -> dict[int, int]:
    """What stands in every slot that we know of."""
    slots = [slot for found in libpq._slots.values() for slot in found]
    return {ctypes.addressof(slot._word): slot._word.value for slot in slots}


def test_every_slot_is_as_it_was() -> None:
    """Inside each slot holds a function of ours, outside what the dynamic linker put there."""
    with patches.installed():
        pass  # the libraries are looked at once
    before = words()
    own = {slot.address for found in libpq._slots.values() for slot in found}
    with patches.installed():
        inside = words()
        assert set(inside.values()) == own
        assert psycopg2._psycopg.connection.__dict__.get("__del__") is not None
    assert words() == before
    assert not own & set(before.values())
    assert "__del__" not in psycopg2._psycopg.connection.__dict__
    assert len(before) > 30


def test_a_page_that_was_read_only_is_so_again() -> None:
    """Libraries that are linked at once have their tables sealed; that is lifted for the write."""
    try:
        ctypes.CDLL(SYSTEM_LIBPQ)
    except OSError:
        pytest.skip("this machine has no libpq of its own")
    (image,) = images.loaded(lambda path: path.endswith(SYSTEM_LIBPQ))
    _, slot, sealed = next(image.imports({"poll"}))
    before = ctypes.c_size_t.from_address(slot).value
    change = images.ImportSlot(slot, before + 1, sealed=sealed)
    rights = rights_at(slot)
    change.apply()
    assert ctypes.c_size_t.from_address(slot).value == before + 1
    assert rights_at(slot) == rights
    change.undo()
    assert ctypes.c_size_t.from_address(slot).value == before
    assert rights_at(slot) == rights


def test_only_imports_by_these_names_are_found() -> None:
    """Each name is found where it is imported, and nothing for a name that is not."""
    wanted = {"poll", "recv", "no_such_function"}
    for image in images.loaded(libpq._is_libpq):
        assert {name for name, _, _ in image.imports(wanted)} == {"poll", "recv"}


def test_outside_of_a_run_the_original_is_called() -> None:
    """Who is not in a run connects to the real network, also while a session lasts."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    for connect in (psycopg.connect, psycopg2.connect):
        with patches.installed():
            with pytest.raises((psycopg.OperationalError, psycopg2.OperationalError)) as caught:
                connect(f"host=127.0.0.1 port={port} user=app")
            assert "Connection refused" in str(caught.value)


CHILD = """
import sys
import foretold
from foretold.kernel.native import libpq

def main(world):
    world.host("other")

foretold.run(main, seed=1)
assert not libpq._slots and not libpq._stand_ins and "ctypes.util" not in sys.modules
assert "foretold.world.net.native" not in sys.modules
"""


def test_a_program_without_a_driver_pays_nothing() -> None:
    """No library is looked at, no stand-in is made."""
    subprocess.run([sys.executable, "-c", CHILD], check=True)
