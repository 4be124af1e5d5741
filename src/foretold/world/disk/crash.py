"""What a power cut leaves of a disk.

The model is POSIX at its least, on a file system with a journal:

- `fsync(file)` makes the file's content and size durable. It does not make its *name* durable: a
  new file that was synced is gone if its directory was not. (ext4 mostly keeps it; POSIX does not
  promise it, and network file systems, some options of ext4 and older kernels do not.)
- `fsync(directory)` makes durable what was done to its names, and all that was done to names of any
  directory before that: the journal is written in its order. `os.sync()` makes everything durable.
- O_SYNC and O_DSYNC make each write durable. Modes and times of files are not lost.

A power cut may therefore do the following, each of which production can do:

- *lose changes of names* (create, unlink, rename, link, mkdir, rmdir): a beginning of the journal
  survives, the rest never happened. A rename is one change: there is the old name or the new one.
- *lose data*: what was written to a file and not synced, all of it or a part. The smallest part is
  a sector, 512 bytes, which a disk writes whole or not at all: a write that spans two is *torn*.
- *reorder data*: sectors reach the platter in any order, since kernel and disk sort them; a later
  write may be there without an earlier one, and of a sector that was written several times any of
  its versions.
- *leave holes*: the file's size is there without the data, zeros in its place (XFS' unwritten
  extents); or the data without the size.
- *bring a rename without the data* of what was renamed: names and data are not ordered to each
  other (ext4 with noauto_da_alloc, XFS). The classic of `write; rename` without `fsync`: an empty
  file.
- after a failed `fsync`, lose what that one would have written even if a later one succeeded:
  Linux counts those pages as clean.

Never: lose or change what was synced properly, mix bytes within a sector, show another file's
bytes, damage the file system itself.

The death of a process (`host.kill()`) loses nothing: the page cache is the kernel's.

Choices: 0 is calm, everything survives as if the kernel had just written all of it back. For the
names one choice, how many changes are lost; for each file with unsynced data one for its fate, and
the details of that.
"""

from __future__ import annotations

from typing import Final

from foretold.tape import Stream
from foretold.world.disk.content import SECTOR, Content, Version
from foretold.world.disk.filesystem import FileSystem
from foretold.world.disk.nodes import Directory, File

FATES: Final = ("all survives", "nothing survives", "a front part survives", "scattered sectors")
GROUPS_MAX: Final = 64
"""So many choices a file takes at most; larger ones lose several neighbours together."""


def power_cut(fs: FileSystem, choices: Stream) -> list[str]:
    """Reduce the disk to what a crash leaves; says what was lost."""
    lost = _cut_journal(fs, choices)
    _go_back_to_durable(fs)
    seen: set[int] = set()
    for path, node in list(fs.walk_all()):
        if isinstance(node, File) and node.number not in seen:
            seen.add(node.number)
            if node.content.unsynced:
                lost += _cut_content(path, node.content, choices)
    _count_again(fs)
    return lost


def _cut_journal(fs: FileSystem, choices: Stream) -> list[str]:
    pending = fs.journal.pending
    n = choices.choose(len(pending) + 1, "changes of names lost")
    fs.journal.commit(len(pending) - n)
    lost = [f"lost: {entry}" for entry in pending]
    pending.clear()
    return lost


def _go_back_to_durable(fs: FileSystem) -> None:
    left = [fs.root]
    while left:
        directory = left.pop()
        directory.entries = dict(directory.durable)
        directory.gone = False
        for name, node in (*directory.entries.items(), *directory.lower.items()):
            if isinstance(node, Directory):
                node.parent, node.name = directory, name
                left.append(node)


def _count_again(fs: FileSystem) -> None:
    """Links and room, of what is there now."""
    nodes = [node for _, node in fs.walk_all()]
    for node in nodes:
        node.nlink = 0
    fs.space.used = 0
    for node in nodes:
        node.nlink += 1
        if isinstance(node, File):
            node.opens = 0
            node.locked_by = []
            fs.space.used += len(node.content.pages) if node.nlink == 1 else 0
    for node in (fs.root, *(n for n in nodes if isinstance(n, Directory))):
        node.nlink = 2 + sum(isinstance(each, Directory) for each in node.entries.values())


def _cut_content(path: str, content: Content, choices: Stream) -> list[str]:
    former: dict[int, list[Version]] = {n: [v] for n, v in content.stale.items()}
    former.update(content.dirty)
    sectors = sorted(former)
    sizes = content.sizes or [content.size if content.stale_size is None else content.stale_size]
    size = content.size
    fate = choices.choose(len(FATES), f"unsynced data of {path}")
    if fate == 1:
        back, size = {n: former[n][0] for n in sectors}, sizes[0]
    elif fate == 2:
        kept = choices.choose(len(sectors), "sectors that survive") if sectors else 0
        back = {n: former[n][0] for n in sectors[kept:]}
        size = _size_of_front(content, sizes, (sectors[kept - 1] + 1) * SECTOR if kept else None)
    elif fate == 3:
        back = _scatter(sectors, former, choices)
        size = [size, *reversed(sizes)][choices.choose(len(sizes) + 1, "which of its sizes")]
    else:
        back = {}
    text = _words(path, len(back), len(sectors), content.size, size)
    for number, version in back.items():
        content.put_sector(number, version)
    content.put_size(size)
    content.dirty.clear()
    content.stale.clear()
    content.sizes.clear()
    content.stale_size = None
    return text


def _size_of_front(content: Content, sizes: list[int], end: int | None) -> int:
    """The file ends where its surviving part does, unless it was longer before."""
    if end is None:
        return sizes[0]
    return min(content.size, max(end, min(sizes)))


def _scatter(
    sectors: list[int], former: dict[int, list[Version]], choices: Stream
) -> dict[int, Version]:
    """Each sector for itself: the latest version, or one of the former."""
    back: dict[int, Version] = {}
    together = -(-len(sectors) // GROUPS_MAX)
    for first in range(0, len(sectors), together or 1):
        group = sectors[first : first + together]
        versions = max(len(former[n]) for n in group)
        age = choices.choose(versions + 1, "version of a sector")
        if age:
            for n in group:
                back[n] = former[n][max(0, len(former[n]) - age)]
    return back


def _words(path: str, lost: int, of: int, size_before: int, size: int) -> list[str]:
    parts = []
    if lost:
        parts.append(f"{lost} of {of} unsynced sectors")
    if size != size_before:
        parts.append(f"its size ({size} instead of {size_before})")
    return [f"lost: of {path} {' and '.join(parts)}"] if parts else []
