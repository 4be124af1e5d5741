"""The real world, for the framework's own use: what these names did before anyone swapped them.

While a run is active `time.monotonic()` is the simulated clock for everybody, foretold included.
What foretold needs for itself (limits on real time, worker processes, seeds) it takes from here.
Each name is an independent copy of the builtin, made when this module is imported; swapping the
original leaves the copy alone.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # the C half of signal has no stub
import _socket
import _thread
import datetime
import os
import resource
import select as _select
import socket
import sys
import time as _time

from foretold.kernel.swap import copy_of

# Clocks.
time = copy_of(_time.time)
time_ns = copy_of(_time.time_ns)
monotonic = copy_of(_time.monotonic)
monotonic_ns = copy_of(_time.monotonic_ns)
perf_counter = copy_of(_time.perf_counter)
perf_counter_ns = copy_of(_time.perf_counter_ns)
process_time = copy_of(_time.process_time)
process_time_ns = copy_of(_time.process_time_ns)
thread_time = copy_of(_time.thread_time)
thread_time_ns = copy_of(_time.thread_time_ns)
clock_gettime = copy_of(_time.clock_gettime)
clock_gettime_ns = copy_of(_time.clock_gettime_ns)
gmtime = copy_of(_time.gmtime)
localtime = copy_of(_time.localtime)
strftime = copy_of(_time.strftime)
ctime = copy_of(_time.ctime)
asctime = copy_of(_time.asctime)
sleep = copy_of(_time.sleep)
times = copy_of(os.times)

# A classmethod is bound anew at each look-up, so these are objects of our own already.
datetime_now = datetime.datetime.now
datetime_utcnow = datetime.datetime.utcnow

# Entropy and identity.
urandom = copy_of(os.urandom)
getrandom = copy_of(os.getrandom)
getpid = copy_of(os.getpid)
get_ident = copy_of(_thread.get_ident)

# What the fence stands before. Files, sockets and subprocesses go through `fence.passage()`.
fork = copy_of(os.fork)
kill = copy_of(os.kill)
exit_now = copy_of(os._exit)
waitpid = copy_of(os.waitpid)
start_new_thread = copy_of(_thread.start_new_thread)
if sys.version_info >= (3, 13):
    start_joinable_thread = copy_of(_thread.start_joinable_thread)
signal = copy_of(_signal.signal)
getsignal = copy_of(_signal.getsignal)
setitimer = copy_of(_signal.setitimer)
pthread_kill = copy_of(_signal.pthread_kill)
select = copy_of(_select.select)
sched_yield = copy_of(os.sched_yield)
listdir = copy_of(os.listdir)
get_native_id = copy_of(_thread.get_native_id)
sched_getaffinity = copy_of(os.sched_getaffinity)
sched_setaffinity = copy_of(os.sched_setaffinity)
poll = copy_of(_select.poll)
read = copy_of(os.read)
write = copy_of(os.write)
get_inheritable = copy_of(os.get_inheritable)
socketpair = copy_of(_socket.socketpair)

if sys.version_info >= (3, 14):
    set_name = copy_of(_thread.set_name)

# Locks: what their methods do, for our own hand-overs. They are called as `lock_acquire(lock)`.
_Lock = type(_thread.allocate_lock())
lock_acquire = _Lock.__dict__["acquire"]
lock_release = _Lock.__dict__["release"]
lock_locked = _Lock.__dict__["locked"]
rlock_acquire = _thread.RLock.__dict__["acquire"]
rlock_release = _thread.RLock.__dict__["release"]
rlock_release_save = _thread.RLock.__dict__["_release_save"]
rlock_acquire_restore = _thread.RLock.__dict__["_acquire_restore"]
rlock_is_owned = _thread.RLock.__dict__["_is_owned"]
allocate_lock = copy_of(_thread.allocate_lock)
if sys.version_info >= (3, 13):
    handle_join = _thread._ThreadHandle.__dict__["join"]
else:
    set_sentinel = copy_of(vars(_thread)["_set_sentinel"])

current_frames = copy_of(sys._current_frames)
sysconf = copy_of(os.sysconf)
getresuid = copy_of(os.getresuid)
getresgid = copy_of(os.getresgid)
getgroups = copy_of(os.getgroups)
getrlimit = copy_of(resource.getrlimit)


class Socket(socket.socket):
    """A socket of foretold's own: it works inside a run as well."""
