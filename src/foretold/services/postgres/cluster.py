"""One PostgreSQL server for this process: started on first use, kept warm, always stopped.

It listens on a socket in a private folder and nowhere else. A guardian (guardian.py) stops it and
removes its files however this process ends. A process that was forked from this one starts its own.

How it is set up: nothing that happens in the background at a moment of its own (vacuum, statistics,
parallel workers, shared scans), nothing that makes it durable (its files are thrown away), and the
shortest `deadlock_timeout`, because a session that waits for a lock says so after that time.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import ClassVar, Final

from foretold.errors import PostgresError, ServiceError
from foretold.kernel import real
from foretold.kernel.patches import patches
from foretold.kernel.threads.one_core import one_core
from foretold.services.postgres import binaries, datadir, guardian, preload, shared_page
from foretold.services.postgres.account import Account, account
from foretold.services.postgres.shared_page import SharedPage
from foretold.services.postgres.side import SideConnection

_START_S_MAX: Final = 60.0
_STOP_S_MAX: Final = 20.0
_LOG_LINES_SHOWN: Final = 12
_CANNOT_CONNECT_NOW: Final = "57P03"

_SETTINGS: Final = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "max_connections": "200",
    "max_prepared_transactions": "64",
    "shared_buffers": "16MB",
    # With `posix` a server that is killed would leave files in /dev/shm.
    "dynamic_shared_memory_type": "mmap",
    # Not durable.
    "fsync": "off",
    "full_page_writes": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_wal_size": "256MB",
    "checkpoint_timeout": "1d",
    # Nothing by itself.
    "autovacuum": "off",
    "bgwriter_lru_maxpages": "0",
    "wal_writer_delay": "10s",
    "max_logical_replication_workers": "0",
    "max_parallel_workers": "0",
    "max_parallel_workers_per_gather": "0",
    "max_parallel_maintenance_workers": "0",
    "synchronize_seqscans": "off",
    "jit": "off",
    "restart_after_crash": "off",
    # A session that waits for a lock says so.
    "deadlock_timeout": "1ms",
    "log_lock_waits": "on",
    # The same on every machine.
    "timezone": "UTC",
    "log_timezone": "UTC",
    "lc_messages": "C",
    "datestyle": "ISO, MDY",
    "default_text_search_config": "pg_catalog.english",
    "logging_collector": "off",
}
_SETTINGS_SINCE: Final = {18: {"io_method": "sync"}}


class Cluster:
    """A running server. `Cluster.shared()` is the one of this process.

    All methods work inside a run: they act outside of it.
    """

    superuser: ClassVar[str] = datadir.SUPERUSER
    _shared: ClassVar[Cluster | None] = None

    def __init__(self) -> None:
        self.page: SharedPage | None = None
        """Its virtual clock and randomness; None without a C compiler."""
        self.page_missing = ""
        """Why there is no page."""
        self.version_num = 0
        """As PostgreSQL counts: 150018 is 15.18."""
        self._owner = real.getpid()
        self._guardian: subprocess.Popen[bytes] | None = None
        self._folders: list[Path] = []
        self._ended = ""
        with patches.outside():
            self._start()

    @classmethod
    def shared(cls) -> Cluster:
        """The server of this process; started if there is none, or if it has died."""
        found = cls._shared
        if found is None or not found.alive():
            if found is not None:
                found.stop()
            found = cls._shared = Cluster()
        return found

    # --- starting ----------------------------------------------------------------------------

    def _start(self) -> None:
        one_core.end()  # a server that starts in the middle of a run has all cores
        who = account()
        self.folder = programs = datadir.make_run_folder(who)
        self._folders.append(self.folder)
        _running.append(self)
        try:
            found = binaries.find()
            if not datadir.runs_programs(self.folder):
                programs = datadir.private_folder(Path(tempfile.gettempdir()), who)
                self._folders.append(programs)
            found = binaries.reachable(found, who, programs)
            self.data = self.folder / "data"
            datadir.make_data(found, who, self.data)
            self._write_settings(found)
            environment = {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"}
            environment |= self._make_page(who, programs)
            self._launch(found, who, environment)
        except BaseException:
            self.stop()
            raise

    def _write_settings(self, found: binaries.Binaries) -> None:
        settings = {**_SETTINGS, "unix_socket_directories": str(self.folder)}
        for major, more in _SETTINGS_SINCE.items():
            settings |= more if found.major >= major else {}
        lines = [f"{name} = '{value}'\n" for name, value in settings.items()]
        (self.data / "postgresql.conf").write_text("".join(lines))

    def _make_page(self, who: Account, programs: Path) -> dict[str, str]:
        try:
            content = preload.library()
        except preload.Missing as error:
            self.page_missing = str(error)
            return {}
        library = programs / "preload.so"
        library.write_bytes(content)
        page, notices = self.folder / "page", self.folder / "notices"
        shared_page.make(page, notices)
        for path in (library, page, notices):
            datadir.give(path, who)
        self.page = SharedPage(page, notices)
        return {
            "LD_PRELOAD": str(library),
            "FORETOLD_PG_PAGE": str(page),
            "FORETOLD_PG_NOTICES": str(notices),
        }

    def _launch(self, found: binaries.Binaries, who: Account, environment: dict[str, str]) -> None:
        job = {
            "uid": None if who.is_ours() else who.uid,
            "gid": None if who.is_ours() else who.gid,
            "program": [str(found.postgres), "-D", str(self.data)],
            "environment": environment,
            "data": str(self.data),
            "log": str(self.folder / "log"),
            "folders": [str(folder) for folder in self._folders],
        }
        # A session of its own: Ctrl-C at the terminal must not reach it before us.
        self._guardian = subprocess.Popen(
            [sys.executable, "-I", "-S", guardian.__file__, json.dumps(job)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            bufsize=0, cwd="/", start_new_session=True,
        )  # fmt: skip
        self._wait_until_ready()

    def _wait_until_ready(self) -> None:
        limit = real.monotonic() + _START_S_MAX
        while True:
            if not self.alive():
                raise ServiceError(self._told(f"PostgreSQL did not start ({self._ended})."))
            try:
                side = SideConnection(self.socket_path, self.superuser, "postgres")
            except (OSError, PostgresError, ServiceError) as error:
                refused = isinstance(error, PostgresError) and error.sqlstate != _CANNOT_CONNECT_NOW
                if refused or real.monotonic() > limit:
                    raise ServiceError(self._told(f"PostgreSQL did not start: {error}")) from error
                real.sleep(0.002)
                continue
            self.version_num = int(side.simple("show server_version_num")[0][0] or 0)
            self._check_page(side)
            side.close()
            return

    def _check_page(self, side: SideConnection) -> None:
        """The loader only warns if it cannot load a library: has the server found the page?"""
        if self.page is None or self.page.knows(side.pid):
            return
        self.page.close()
        self.page = None
        self.page_missing = self._told("the server did not load the preload library.")

    # --- running -----------------------------------------------------------------------------

    @property
    def socket_path(self) -> str:
        return datadir.socket_in(self.folder)

    def connect(
        self, database: str = "postgres", *, user: str = datadir.SUPERUSER, **options: str
    ) -> SideConnection:
        """A connection of foretold's own, which programs can tell by its name."""
        self.check()
        options.setdefault("application_name", "foretold")
        return SideConnection(self.socket_path, user, database, **options)

    def databases(self) -> list[str]:
        side = self.connect()
        try:
            rows = side.simple("select datname from pg_database where not datistemplate order by 1")
        finally:
            side.close()
        return [str(row[0]) for row in rows]

    def alive(self) -> bool:
        """Whether the server runs, and is ours: a forked process has none."""
        if self._guardian is None or self._owner != real.getpid() or self._ended:
            return False
        with patches.outside():
            said = self._listen()
        if "ended" in said:
            self._ended = _ending(int(said.split()[-1]))
        elif said == "":
            self._ended = "its guardian was killed"
        return not self._ended

    def _listen(self) -> str:
        """What the guardian has said since the last time; "" if it is gone, "-" if nothing."""
        assert self._guardian is not None
        assert self._guardian.stdout is not None
        if not select.select([self._guardian.stdout], [], [], 0)[0]:
            return "-"
        return os.read(self._guardian.stdout.fileno(), 4096).decode()

    def check(self) -> None:
        """Raise if the server has died."""
        if not self.alive():
            raise self.death()

    def death(self) -> ServiceError:
        """What there is to say about a server that has died."""
        return ServiceError(self._told(f"PostgreSQL is not running any more ({self._ended})."))

    def death_of_process(self) -> ServiceError:
        """What there is to say about one process of the server that has died."""
        what = "A process of PostgreSQL has ended without a word: it was killed, or it crashed."
        return ServiceError(self._told(what))

    def _told(self, what: str) -> str:
        """The sentence, and the end of the server's log."""
        with patches.outside():
            try:
                lines = (self.folder / "log").read_text(errors="replace").splitlines()
            except OSError:
                return f"{what} It has written no log."
        last = "\n".join(f"  {line}" for line in lines[-_LOG_LINES_SHOWN:])
        return f"{what} The end of its log:\n{last}"

    # --- stopping ----------------------------------------------------------------------------

    def stop(self) -> None:
        """Stop the server and remove its files; no harm if that was done already."""
        if self._owner != real.getpid():
            return
        with patches.outside():
            if self.page is not None:
                self.page.close()
                self.page = None
            process, self._guardian = self._guardian, None
            self._ended = self._ended or "it was stopped"
            if process is not None:
                _close(process)  # that is the sign
                process.wait(_STOP_S_MAX)
            for folder in self._folders:  # there still, if nothing was started, or all was killed
                shutil.rmtree(folder, ignore_errors=True)
        if self in _running:
            _running.remove(self)

    def _leave_to_parent(self) -> None:
        """In a forked process: let go of what is the parent's, so that its end is still noticed."""
        process, self._guardian = self._guardian, None
        if process is not None:
            process.returncode = 0  # it is no child of ours: never wait for it
            _close(process)


_running: Final[list[Cluster]] = []


def _close(process: subprocess.Popen[bytes]) -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()


def _ending(status: int) -> str:
    if os.WIFSIGNALED(status):
        return f"it was killed by signal {os.WTERMSIG(status)}"
    return f"it ended with code {os.WEXITSTATUS(status)}"


@atexit.register
def stop_all() -> None:
    """Stop every server of this process."""
    Cluster._shared = None
    for found in list(_running):
        found.stop()


def _after_fork() -> None:
    Cluster._shared = None
    while _running:
        _running.pop()._leave_to_parent()


os.register_at_fork(after_in_child=_after_fork)
