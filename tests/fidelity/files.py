"""Programs that use files, each in an empty directory of its own, and report what they saw.

They report what POSIX and Linux decide: contents, sizes, errors with their paths. Not what a
machine decides: numbers of inodes and descriptors, times, the order of listings.
"""

from __future__ import annotations

import errno
import fcntl
import glob
import io
import json
import mmap
import os
import pathlib
import shutil
import stat
import tempfile
import warnings
from collections.abc import Callable
from typing import Any


def tried(call: Callable[..., Any], *args: Any, **names: Any) -> Any:
    """What a call gives: its value, or the error with the paths it names."""
    try:
        return call(*args, **names)
    except OSError as error:
        number = errno.errorcode.get(error.errno or 0)
        paths = (None if isinstance(p, int) else p for p in (error.filename, error.filename2))
        return number, type(error).__name__, *paths
    except (ValueError, TypeError, io.UnsupportedOperation) as error:
        return type(error).__name__, str(error)


def furnish() -> None:
    """A file, a directory that is not empty, links to both, a loop, a link to nothing."""
    os.mkdir("d")
    os.mkdir("d/e")
    pathlib.Path("f").write_text("content")
    for target, name in (("d", "ld"), ("f", "lf"), ("loop", "loop"), ("nowhere", "dangling")):
        os.symlink(target, name)


def tree() -> list[Any]:
    """Everything below the working directory."""
    found = []
    for folder, folders, files in os.walk("."):
        for name in sorted(folders + files):
            path = os.path.join(folder, name)
            kind = stat.S_IFMT(os.lstat(path).st_mode)
            data = os.readlink(path) if stat.S_ISLNK(kind) else None
            if stat.S_ISREG(kind):
                data = pathlib.Path(path).read_bytes().hex()
            found.append((path, kind, data))
    return sorted(found)


def names_that_do_not_work() -> Any:
    """Every wrong way to use a name, and its error."""
    furnish()
    long_name, long_path = "a" * 256, "a/" * 2_048
    calls: list[tuple[Any, ...]] = [
        (os.stat, ""), (os.stat, "nx"), (os.stat, "f/x"), (os.stat, "d/nx/.."), (os.stat, "f/.."),
        (os.stat, "f/"), (os.stat, "lf/"), (os.stat, "loop"), (os.stat, "dangling"),
        (os.stat, long_name), (os.stat, long_path), (os.stat, "a\0b"), (os.lstat, "nx/"),
        (os.rename, "f", "d"), (os.rename, "d", "f"), (os.rename, "d", "d/e/x"),
        (os.rename, "d/e", "d"), (os.rename, "nx", "f"), (os.rename, ".", "x"),
        (os.rename, "f", "x/"), (os.rename, "f", "d/"), (os.rename, "ld/", "y"),
        (os.rename, "f", "nx/x"), (os.rename, "f", "f/x"), (os.rename, "d", "d/."),
        (os.replace, "f", "d"), (os.replace, "nx", "nx2"),
        (os.rmdir, "ld"), (os.rmdir, "ld/"), (os.rmdir, "d"), (os.rmdir, "f"), (os.rmdir, "."),
        (os.rmdir, "d/.."), (os.rmdir, "/"), (os.rmdir, "nx"),
        (os.unlink, "d"), (os.unlink, "f/"), (os.unlink, "."), (os.unlink, "d/.."),
        (os.unlink, "nx"), (os.unlink, "ld/"), (os.remove, "d"), (os.remove, "nx/x"),
        (os.mkdir, "f/x"), (os.mkdir, "d"), (os.mkdir, "."), (os.mkdir, "dangling"),
        (os.mkdir, "nx/x"), (os.mkdir, "f"), (os.mkdir, "lf"),
        (os.link, "d", "d2"), (os.link, "f", "f"), (os.link, "nx", "x"), (os.link, "f", "new/"),
        (os.symlink, "x", "f"), (os.symlink, "", "q"), (os.symlink, "x", "new/"),
        (os.readlink, "f"), (os.readlink, "nx"), (os.readlink, "d"),
        (os.listdir, "f"), (os.listdir, "nx"), (os.scandir, "f"), (os.scandir, "nx"),
        (os.truncate, "f", -1), (os.truncate, "d", 0), (os.truncate, "nx", 0),
        (os.chdir, "f"), (os.chdir, "nx"), (os.chmod, "nx", 0o600), (os.utime, "nx"),
        (open, "nx"), (open, "d"), (open, "d", "w"), (open, "f", "x"), (open, "f/", "w"),
        (open, "nx/", "w"), (open, "nx/x", "w"), (open, "loop"), (open, "lf/x", "w"),
        (open, "f", "rw"), (open, "f", "rb", -1, "utf-8"), (open, "f", "r", 0), (open, "f", "q"),
        (open, -1), (open, "f", "r", -1, None, None, None, False),
    ]  # fmt: skip
    return [tried(*call) for call in calls], tree()


def flags_of_open() -> Any:
    """What each flag of os.open makes of each kind of name."""
    furnish()
    seen: list[Any] = []
    for path in ("f", "d", "lf", "ld", "dangling", "loop", "new", "d/", "f/", "new2/"):
        for flags in (
            os.O_RDONLY, os.O_WRONLY, os.O_RDWR, os.O_RDONLY | os.O_DIRECTORY,
            os.O_RDONLY | os.O_NOFOLLOW, os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY,
            os.O_WRONLY | os.O_CREAT | os.O_EXCL, os.O_RDONLY | os.O_TRUNC,
            os.O_WRONLY | os.O_CREAT, os.O_RDONLY | os.O_CREAT,
        ):  # fmt: skip
            fd = tried(os.open, path, flags)
            if isinstance(fd, int):
                seen.append((path, flags, stat.S_IFMT(os.fstat(fd).st_mode), os.fstat(fd).st_size))
                os.close(fd)
            else:
                seen.append((path, flags, fd))
    return seen, tree()


def descriptors() -> Any:
    """Reading, writing and seeking by descriptor; what is shared by dup; what is refused."""
    fd = os.open("f", os.O_RDWR | os.O_CREAT, 0o640)
    seen: list[Any] = [os.write(fd, b"0123456789"), os.lseek(fd, 3, os.SEEK_SET), os.read(fd, 3)]
    again = os.dup(fd)
    seen += [os.read(again, 2), os.lseek(fd, 0, os.SEEK_CUR), os.pread(fd, 4, 8), os.read(fd, 99)]
    seen += [os.read(fd, 5), os.pwrite(fd, b"xy", 12), os.fstat(fd).st_size, os.pread(fd, 99, 0)]
    first, second = bytearray(3), bytearray(4)
    seen += [os.preadv(fd, [first, second], 1), bytes(first), bytes(second)]
    seen += [os.lseek(fd, 0, 0), os.writev(fd, [b"ab", b"c"]), os.lseek(fd, -2, os.SEEK_END)]
    seen += [tried(os.lseek, fd, -1, 0), tried(os.lseek, fd, 0, 99), tried(os.pread, fd, 1, -1)]
    os.ftruncate(fd, 5)
    seen += [os.fstat(fd).st_size, os.lseek(fd, 0, os.SEEK_CUR), os.read(fd, 9), os.write(fd, b"!")]
    seen += [os.pread(fd, 99, 0), stat.S_IMODE(os.fstat(fd).st_mode), os.isatty(fd)]
    os.close(fd)
    seen += [
        tried(os.read, fd, 1),
        os.write(again, b"?"),
        tried(os.fsync, again),
        tried(os.fdatasync, again),
    ]
    os.close(again)
    for flags, call in ((os.O_RDONLY, os.write), (os.O_WRONLY, os.read)):
        fd = os.open("f", flags)
        seen.append(tried(call, fd, b"x" if call is os.write else 1))
        seen.append(tried(os.ftruncate, fd, 1) if flags == os.O_RDONLY else None)
        os.close(fd)
    fd = os.open(".", os.O_RDONLY)
    seen += [
        tried(os.read, fd, 1),
        tried(os.write, fd, b"x"),
        tried(os.fsync, fd),
        tried(os.close, -1),
    ]
    os.close(fd)
    return seen, tree()


def closed_behind_ones_back() -> Any:
    """A descriptor that somebody else has closed: EBADF from every layer, and from close."""
    seen: list[Any] = []
    for buffering in (0, -1):
        with open("f", "wb+", buffering=buffering) as file:
            file.write(b"0123")
            file.flush()
            os.close(file.fileno())
            seen += [tried(file.seek, 0), tried(file.read, 1), tried(file.truncate, 1)]
            seen += [tried(os.fsync, file.fileno()), tried(os.fstat, file.fileno())]
            seen += [tried(file.close), file.closed]
    fd = os.open("f", os.O_RDONLY)
    os.close(fd)
    seen += [tried(call, fd) for call in (os.close, os.dup, os.fsync, os.fstat, os.listdir)]
    seen += [tried(os.lseek, fd, 0, 0), tried(open, fd), tried(fcntl.flock, fd, fcntl.LOCK_SH)]
    seen += [tried(os.stat, "f", dir_fd=fd), tried(os.fchdir, fd), tried(os.set_blocking, fd, True)]
    return seen


def never_opened() -> Any:
    """A number that nobody has opened is bad, whoever the test runner is."""
    fd = 900_001
    seen = [tried(call, fd) for call in (os.close, os.dup, os.fsync, os.fstat, os.listdir, open)]
    seen += [tried(os.read, fd, 1), tried(os.write, fd, b"x"), tried(os.lseek, fd, 0, 0)]
    seen += [tried(os.stat, "f", dir_fd=fd), tried(mmap.mmap, fd, 10), os.isatty(fd)]
    return [*seen, tried(os.dup2, fd, 900_002), tried(os.sendfile, fd, fd, 0, 1)]


def appending() -> Any:
    """O_APPEND writes at the end, wherever the position is, also through two descriptors."""
    one = os.open("log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    two = os.open("log", os.O_RDWR | os.O_APPEND)
    os.write(one, b"a")
    os.write(two, b"b")
    os.lseek(one, 0, os.SEEK_SET)
    os.write(one, b"c")
    place = os.lseek(one, 0, os.SEEK_CUR)
    written = os.pwrite(two, b"d", 0)
    content = os.pread(two, 99, 0)
    os.close(one)
    os.close(two)
    with open("log", "a+") as file:
        start = file.tell()
        file.write("e")
        file.seek(0)
        return place, written, content, start, file.read()


def sparse() -> Any:
    """Holes read as zeros and take no room; truncation grows and cuts."""
    with open("s", "wb+") as file:
        file.seek(1 << 33)
        file.write(b"end")
        file.flush()
        fd = file.fileno()
        seen: list[Any] = [os.fstat(fd).st_size, os.fstat(fd).st_blocks < 100]
        seen += [os.lseek(fd, 0, os.SEEK_DATA), tried(os.lseek, fd, 1 << 34, os.SEEK_DATA)]
        seen += [os.lseek(fd, 0, os.SEEK_HOLE), os.pread(fd, 10, (1 << 33) - 5)]
        file.truncate(10)
        seen += [os.pread(fd, 99, 0), file.seek(0, os.SEEK_END)]
        os.ftruncate(fd, 5_000)
        seen.append(os.pread(fd, 9_999, 0) == bytes(5_000))
        os.posix_fallocate(fd, 6_000, 1_000)
        seen += [os.fstat(fd).st_size, tried(os.truncate, "s", 1 << 62)]
    with open("t", "wb+") as file:
        file.write(b"x" * 5_000)
        file.truncate(4_100)
        file.truncate(5_000)
        file.seek(0)
        seen.append(file.read() == b"x" * 4_100 + bytes(900))
    return seen


def text_files() -> Any:
    """Modes, encodings, newlines, buffering, positions: what open gives above the raw file."""
    seen: list[Any] = []
    file: Any
    raw: Any
    with open("t", "w", encoding="utf-8", newline="\r\n") as file:
        seen += [file.write("grün\nblau\n"), file.mode, file.name, file.line_buffering]
        seen += [type(file.buffer).__name__, file.buffer.mode, file.fileno() > 2, file.isatty()]
    with open("t", encoding="utf-8") as file:
        seen += [file.readline(), file.tell(), file.read(2), list(file), file.readable()]
        seen += [file.writable(), file.seekable(), tried(file.write, "x")]
    with open("t", "rb") as raw:
        seen += [raw.read(), raw.mode, type(raw).__name__, raw.peek()]
    with open("t", "r+b", buffering=0) as raw:
        seen += [raw.mode, raw.read(3), raw.write(b"XYZ"), raw.tell(), raw.readall(), raw.closefd]
        view = bytearray(4)
        seen += [raw.seek(0), raw.readinto(view), bytes(view), raw.truncate(6), raw.readable()]
    seen += [tried(raw.read), raw.closed, os.path.getsize("t")]
    with open("t", "x" if not os.path.exists("t") else "a", buffering=1) as file:
        file.write("line\n")
        seen.append(os.path.getsize("t"))
        file.write("rest")
        seen.append(os.path.getsize("t"))
    with open("t", "w+b") as raw:
        raw.write(b"one")
        raw.seek(1)
        raw.write(b"N")
        raw.seek(0)
        seen += [raw.read(), raw.tell(), tried(open, "t", "x")]
    with open(os.open("t", os.O_RDONLY), closefd=True) as file:
        seen.append(file.read())
    fd = os.open("t", os.O_RDONLY)
    with open(fd, closefd=False) as file:
        seen.append(file.read(1))
    seen.append(os.lseek(fd, 0, os.SEEK_CUR))
    os.close(fd)
    with open("t", opener=lambda path, flags: os.open(path, flags | os.O_TRUNC)) as file:
        seen.append(file.read())
    return seen


def names_of_open_files() -> Any:
    """What a file says it is called, and what an error says: text or bytes, never a Path."""
    pathlib.Path("f").write_text("content")
    seen: list[Any] = []
    for path in ("f", b"f", pathlib.Path("f"), pathlib.Path("no") / "such"):
        for mode in ("r", "rb"):
            try:
                with open(path, mode) as file:
                    seen.append(file.name)
            except OSError as error:
                seen.append(error.filename)
    with pathlib.Path("f").open() as file:
        seen.append(file.name)
    return seen


def unlinked_while_open() -> Any:
    """A file lives on without a name, as long as somebody has it open."""
    with open("f", "w+") as file:
        file.write("alive")
        file.flush()
        os.unlink("f")
        seen: list[Any] = [os.path.exists("f"), os.fstat(file.fileno()).st_nlink]
        file.seek(0)
        seen.append(file.read())
        with open("f", "w") as other:
            other.write("another")
        file.seek(0)
        seen += [file.read(), pathlib.Path("f").read_text()]
    os.mkdir("d")
    os.chdir("d")
    os.rmdir("../d")
    seen += [tried(os.getcwd), tried(os.listdir), tried(os.mkdir, "x"), tried(open, "x", "w")]
    os.chdir("..")
    return seen, tree()


def renames_and_links() -> Any:
    """What a rename replaces and keeps; hard links share, symbolic ones point."""
    furnish()
    seen: list[Any] = []
    os.link("f", "f2")
    seen += [os.stat("f").st_nlink, os.path.samefile("f", "f2"), tried(os.rename, "f", "f2")]
    seen += [os.path.exists("f"), tried(os.link, "lf", "lf2"), os.path.islink("lf2")]
    with open("f2", "a") as file:
        file.write("+")
    seen.append(pathlib.Path("f").read_text())
    os.replace("f2", "moved")
    os.rename("ld", "ld2")
    os.mkdir("empty")
    os.rename("d", "empty")
    os.rename("empty/", "d/")
    pathlib.Path("other").write_text("other")
    with open("f") as old:
        os.replace("other", "f")
        seen += [old.read(), os.fstat(old.fileno()).st_nlink, pathlib.Path("f").read_text()]
    os.rename("lf", "moved")
    seen += [os.path.realpath("moved") == os.path.realpath("f"), os.readlink(b"moved")]
    pathlib.Path("dangling").write_text("through the link")
    seen += [os.path.exists("nowhere"), os.lstat("dangling").st_size, os.path.lexists("loop")]
    os.symlink("../f", "d/up")
    seen += [pathlib.Path("d/up").read_text(), pathlib.Path("ld2/../f").exists()]
    return seen, tree()


def metadata() -> Any:
    """Modes, umask, times that are set, access, sizes, link counts."""
    before = os.umask(0o027)
    os.close(os.open("f", os.O_CREAT | os.O_WRONLY, 0o666))
    os.mkdir("d", 0o777)
    os.mkdir("s", 0o1770)
    seen: list[Any] = [stat.S_IMODE(os.stat(name).st_mode) for name in "fds"]
    seen += [os.umask(before), tried(os.chmod, "f", 0o4755), stat.filemode(os.stat("f").st_mode)]
    os.utime("f", (1.5, 2.25))
    seen += [os.stat("f").st_atime, os.stat("f").st_mtime_ns, os.path.getmtime("f")]
    os.utime("f", ns=(3, 4_000_000_005))
    found = os.stat("f")
    seen += [found.st_atime_ns, found.st_mtime_ns, found.st_mtime, found[8], found.st_uid]
    seen += [os.access("f", os.X_OK), os.access("d", os.R_OK), os.access("nx", os.F_OK)]
    seen += [found.st_nlink, found.st_size, stat.S_ISREG(found.st_mode), tried(os.utime, "f", (1,))]
    os.chmod("f", 0o600)
    seen += [
        os.access("f", os.X_OK),
        tried(os.getxattr, "f", "user.nx")[0],
        os.statvfs(".").f_namemax,
    ]
    fd = os.open("f", os.O_RDWR)
    os.fchmod(fd, 0o644)
    os.utime(fd, (7, 8))
    seen += [os.stat(fd).st_mtime, stat.S_IMODE(os.stat(fd).st_mode), tried(os.chmod, fd, 0o600)]
    os.close(fd)
    return seen


def relative_to_a_directory() -> Any:
    """dir_fd everywhere, and scandir, stat and chdir of a descriptor."""
    furnish()
    fd = os.open("d", os.O_RDONLY)
    os.mkdir("x", dir_fd=fd)
    os.close(os.open("y", os.O_CREAT | os.O_WRONLY, dir_fd=fd))
    os.symlink("y", "z", dir_fd=fd)
    os.rename("y", "w", src_dir_fd=fd, dst_dir_fd=fd)
    seen: list[Any] = [sorted(os.listdir(fd)), os.readlink("z", dir_fd=fd)]
    seen += [tried(os.stat, "z", dir_fd=fd), stat.S_ISLNK(os.lstat("z", dir_fd=fd).st_mode)]
    with os.scandir(fd) as entries:
        seen.append(sorted((e.name, e.path, e.is_dir(), e.is_symlink()) for e in entries))
    os.unlink("z", dir_fd=fd)
    os.rmdir("x", dir_fd=fd)
    os.link("w", "w2", src_dir_fd=fd, dst_dir_fd=fd)
    here = os.getcwd()
    os.fchdir(fd)
    seen += [os.path.relpath(os.getcwd(), here), sorted(os.listdir())]
    os.chdir(here)
    os.close(fd)
    file = os.open("f", os.O_RDONLY)
    seen += [tried(os.stat, "x", dir_fd=file), tried(os.listdir, file), tried(os.chdir, file)]
    os.close(file)
    seen.append(
        [(os.path.basename(folder), sorted(a), sorted(b)) for folder, a, b, _ in os.fwalk("d")]
    )
    return seen, tree()


def listings() -> Any:
    """listdir, scandir, walk, glob and pathlib agree, in str and in bytes."""
    furnish()
    pathlib.Path("d/e/deep.txt").write_text("x")
    pathlib.Path("d/ü.txt").write_text("y")
    with os.scandir() as entries:
        scanned = sorted(
            (
                e.name,
                e.path,
                e.is_dir(),
                e.is_file(),
                e.is_symlink(),
                e.is_dir(follow_symlinks=False),
            )
            for e in entries
            if e.name != "loop"
        )
    with os.scandir(b"d") as entries:
        as_bytes = sorted((e.name, os.fspath(e), repr(e), e.stat().st_size > 0) for e in entries)
    walked = sorted((a, sorted(b), sorted(c)) for a, b, c in os.walk(".", followlinks=False))
    globbed = [sorted(glob.glob(p, recursive=True)) for p in ("*", "d/*", "**/*.txt", "[fd]")]
    paths = pathlib.Path(".")
    found = [sorted(map(str, paths.glob("**/*.txt"))), sorted(map(str, paths.rglob("e*")))]
    found.append(sorted(str(p) for p in pathlib.Path("d").iterdir()))
    return scanned, as_bytes, walked, globbed, found, sorted(os.listdir(b"d"))


def helpers_of_the_library() -> Any:
    """shutil, tempfile, json and pathlib, as programs use them."""
    furnish()
    os.remove("loop")
    seen: list[Any] = [shutil.copy("f", "copy"), shutil.copy2("f", "d"), shutil.copyfile("f", "g")]
    shutil.copytree("d", "tree", symlinks=True)
    shutil.move("tree", "d/e")
    seen += [tried(shutil.copyfile, "f", "lf")[:1], tried(shutil.rmtree, "ld")[:2]]
    shutil.rmtree("d/e/tree")
    with open("f", "rb") as source, open("h", "wb") as target:
        shutil.copyfileobj(source, target)
        seen.append(os.copy_file_range(source.fileno(), target.fileno(), 3, 0, 20))
    pathlib.Path("deep/er/est").mkdir(parents=True)
    seen += [tried(pathlib.Path("deep").mkdir), tried(pathlib.Path("deep").mkdir, exist_ok=True)]
    os.makedirs("deep/er/more", exist_ok=True)
    os.removedirs("deep/er/est")
    with tempfile.TemporaryDirectory(dir=".") as folder:
        with tempfile.NamedTemporaryFile("w+", dir=folder) as file:
            json.dump({"a": [1, 2]}, file)
            file.flush()
            seen += [os.path.getsize(file.name), os.path.dirname(file.name) == folder]
        with tempfile.TemporaryFile(dir=folder) as raw:
            raw.write(b"gone")
            seen += [raw.seek(0), raw.read(), os.listdir(folder)]
        fd, path = tempfile.mkstemp(dir=folder)
        os.close(fd)
        seen += [os.path.exists(path), stat.S_IMODE(os.stat(path).st_mode)]
    pathlib.Path("p").write_bytes(b"\x00\xff")
    seen += [
        pathlib.Path("p").read_bytes(),
        pathlib.Path("p").stat().st_size,
        os.path.exists(folder),
    ]
    pathlib.Path("p").rename("q").unlink()
    pathlib.Path("q").unlink(missing_ok=True)
    pathlib.Path("t").touch()
    return seen, tree()


def locks() -> Any:
    """flock is held by the open file, shared or alone, and let go by the last close."""
    with open("l", "w") as one, open("l", "w") as two:
        fcntl.flock(one, fcntl.LOCK_EX)
        seen: list[Any] = [tried(fcntl.flock, two, fcntl.LOCK_EX | fcntl.LOCK_NB)[:2]]
        seen.append(tried(fcntl.flock, two, fcntl.LOCK_SH | fcntl.LOCK_NB)[:2])
        fcntl.flock(one, fcntl.LOCK_SH)
        seen += [tried(fcntl.flock, two, fcntl.LOCK_SH | fcntl.LOCK_NB)]
        seen.append(tried(fcntl.flock, one, fcntl.LOCK_EX | fcntl.LOCK_NB)[:2])
        fcntl.flock(two, fcntl.LOCK_UN)
        seen += [
            tried(fcntl.flock, one, fcntl.LOCK_EX | fcntl.LOCK_NB),
            tried(fcntl.lockf, two, fcntl.LOCK_EX),
        ]
        again = os.dup(one.fileno())
        fcntl.flock(again, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(again)
        seen.append(tried(fcntl.flock, two, fcntl.LOCK_EX | fcntl.LOCK_NB)[:2])
        one.close()
        seen.append(tried(fcntl.flock, two, fcntl.LOCK_EX | fcntl.LOCK_NB))
        seen += [fcntl.fcntl(two, fcntl.F_GETFL) & os.O_ACCMODE]
    return seen


def forgotten_files() -> Any:
    """A file that nobody closed is closed when it is collected, with a warning and its content."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        open("f", "w").write("kept")  # noqa: SIM115  # forgotten on purpose
        open("g", "wb", buffering=0).write(b"kept too")  # noqa: SIM115  # as above
    kinds = [warning.category.__name__ for warning in caught]
    return kinds, "unclosed file <_io.TextIOWrapper name='f'" in str(caught[0].message), tree()


def devices() -> Any:
    """/dev/null swallows, /dev/zero gives zeros, /dev/urandom something, /dev/full nothing."""
    with open(os.devnull, "r+b", buffering=0) as null, open("/dev/zero", "rb") as zero:
        seen: list[Any] = [null.write(b"gone"), null.read(), zero.read(3)]
    with open("/dev/urandom", "rb") as random:
        seen += [len(random.read(16)), random.read(1) != b""]
    with open("/dev/full", "wb", buffering=0) as full:
        seen.append(tried(full.write, b"x")[:2])
    return seen


def mappings() -> Any:
    """mmap: shared, private and read-only, in parts, and what the file sees of it."""
    pathlib.Path("m").write_bytes(b"0123456789" * 1_000)
    seen: list[Any] = []
    with open("m", "r+b", buffering=0) as file:
        with mmap.mmap(file.fileno(), 0) as shared:
            seen += [len(shared), shared[:3], shared.find(b"9"), shared.size(), shared.read(4)]
            shared[0:2] = b"AB"
            memoryview(shared)[5_000] = 90
            seen += [file.read(3), os.pread(file.fileno(), 3, 4_999), tried(shared.flush)]
            os.pwrite(file.fileno(), b"!!", 10)
            seen += [shared[9:13], isinstance(shared, mmap.mmap)]
            with mmap.mmap(file.fileno(), 100, access=mmap.ACCESS_COPY, offset=4_096) as private:
                private[:3] = b"xyz"
                seen += [private[:4], shared[4_096:4_100], len(private)]
        seen += [tried(mmap.mmap, file.fileno(), 99_999), shared.closed, tried(shared.read)]
    with open("m", "rb") as file:
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as fixed:
            seen += [fixed[:4], tried(fixed.write, b"x"), tried(fixed.__setitem__, 0, 1)]
            seen.append([fixed.readline()[:5], fixed.tell(), fixed.rfind(b"A")])
        seen.append(tried(mmap.mmap, file.fileno(), 0))
        seen.append(tried(mmap.mmap, file.fileno(), 10, prot=mmap.PROT_READ, access=2))
    pathlib.Path("empty").write_bytes(b"")
    with open("empty", "r+b") as file:
        seen.append(tried(mmap.mmap, file.fileno(), 0))
    with mmap.mmap(-1, 10) as anonymous:
        anonymous.write(b"free")
        seen.append(anonymous[:5])
    return seen, pathlib.Path("m").read_bytes()[:20]


PROGRAMS = [
    mappings,
    names_that_do_not_work,
    flags_of_open,
    descriptors,
    closed_behind_ones_back,
    never_opened,
    appending,
    sparse,
    text_files,
    names_of_open_files,
    unlinked_while_open,
    renames_and_links,
    metadata,
    relative_to_a_directory,
    listings,
    helpers_of_the_library,
    locks,
    forgotten_files,
    devices,
]
