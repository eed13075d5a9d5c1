# SPDX-License-Identifier: Apache-2.0
"""Starts the processes of one server, restarts those that die, and ends them together.

The supervisor only forks, waits and passes signals on. It has no event loop and no threads, and
has imported the whole program: so a new process starts at once, and shares most of its memory with
the others. The supervisor also keeps the address of the server open. Clients that connect while the
owner restarts only wait.
"""

import ctypes
import logging
import os
import signal
import socket
import sys
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from time import monotonic
from typing import Final, NoReturn

from tidings.assembly.control import READY, LinkedProcess, Supervised, send_link
from tidings.model.setup_error import OPERATOR_MUST_ACT

log = logging.getLogger("tidings.supervisor")

FAILED: Final = 1
EARLY_ENDS_MAX: Final = 5
"""Number of times in a row that a process may end before it is ready. Then the server gives up."""
RECENT_SECONDS: Final = 60.0
WAIT_SECONDS_MAX: Final = 1.0
"""Longest wait before a process is started again. The first time it is started at once."""
WAIT_SECONDS: Final = 0.05
END_SECONDS_MAX: Final = 5.0
"""How long a front may take to end after the owner has ended."""

_STOPS: Final = (signal.SIGTERM, signal.SIGINT)
_PASSED_ON: Final = (signal.SIGHUP, signal.SIGUSR1)
_HANDLED: Final = frozenset({*_STOPS, *_PASSED_ON, signal.SIGCHLD})
_PR_SET_PDEATHSIG: Final = 1


@dataclass(slots=True)
class SupervisedJob:
    """A process that a server has, and what it runs."""

    name: str
    run: Callable[[Supervised], int]
    is_front: bool = False
    pid: int = 0
    """Process id; 0 while it does not run."""
    control: socket.socket | None = None
    start_at: float = 0.0
    """When to start it, on a monotonic clock."""
    was_ready: bool = False
    """Whether it was ready at least once since the supervisor started."""
    early_ends: int = 0
    ends: deque[float] = field(default_factory=deque)
    """When it ended lately."""


class Supervisor:
    """Runs the processes of a server until one of them must not be restarted, or a signal."""

    def __init__(self, jobs: Sequence[SupervisedJob], listeners: Sequence[socket.socket]) -> None:
        """Set up the processes: an owner and its fronts, or several processes that are alike."""
        self._jobs = list(jobs)
        self._listeners = tuple(listeners)
        self._is_stopping = False
        self._exit_code = 0
        self._kill_at = 0.0

    @property
    def _fronts(self) -> list[SupervisedJob]:
        return [job for job in self._jobs if job.is_front]

    @property
    def _others(self) -> list[SupervisedJob]:
        return [job for job in self._jobs if not job.is_front]

    def run(self) -> int:
        """Run until all processes have ended; return the exit code of the server."""
        signal.pthread_sigmask(signal.SIG_BLOCK, _HANDLED)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # or the kernel may tell nobody who has ended
        while not self._is_stopping or any(job.pid for job in self._jobs):
            self._start_due()
            self._end_fronts()
            found = signal.sigtimedwait(_HANDLED, self._wait_seconds())
            if found is None:
                continue
            if found.si_signo in _STOPS:
                self._stop(0)
            elif found.si_signo in _PASSED_ON:
                self._signal_all(found.si_signo)
            self._reap()
        return self._exit_code

    def _wait_seconds(self) -> float:
        due = [job.start_at for job in self._jobs if not job.pid] if not self._is_stopping else []
        until = min(due, default=monotonic() + 1.0)
        return min(1.0, max(0.0, until - monotonic()))

    # Starting.

    def _start_due(self) -> None:
        for job in self._jobs:
            if not job.pid and not self._is_stopping and job.start_at <= monotonic():
                self._start(job)

    def _start(self, job: SupervisedJob) -> None:
        sys.stdout.flush()
        supervisor = os.getpid()
        ends: tuple[socket.socket, ...] = ()
        try:
            ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            job.pid = os.fork()
        except OSError as error:
            for end in ends:
                end.close()
            job.start_at = monotonic() + WAIT_SECONDS_MAX
            about = {"action": "process_not_started", "job": job.name, "error": str(error)}
            log.error("a process of the server cannot be made", extra=about)
            return
        ours, theirs = ends
        if not job.pid:
            self._become(job, ours, theirs, supervisor)
        theirs.close()
        job.control = ours
        extra = {"action": "process_started", "job": job.name, "pid": job.pid}
        log.info("a process of the server starts", extra=extra)
        if job.is_front:
            for owner in self._others:
                _connect(owner, job)
        else:
            for front in self._fronts:
                _connect(job, front)

    def _become(
        self, job: SupervisedJob, ours: socket.socket, theirs: socket.socket, supervisor: int
    ) -> NoReturn:
        """Run a job in the process that was just forked."""
        code = FAILED
        try:
            _die_with(supervisor)
            ours.close()
            for other in self._jobs:
                if other.control is not None:
                    other.control.close()
            if job.is_front:
                for listener in self._listeners:
                    listener.close()
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _HANDLED)
            listeners = () if job.is_front else self._listeners
            is_first = job is self._jobs[0] and not job.was_ready
            code = job.run(Supervised(theirs, listeners, len(self._fronts), is_first))
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    # Ending.

    def _stop(self, exit_code: int) -> None:
        """Let the owner close its connections; the fronts end after it."""
        if not self._is_stopping:
            self._is_stopping, self._exit_code = True, exit_code
            for listener in self._listeners:
                listener.close()
        for job in self._others:
            _send_signal(job, signal.SIGTERM)

    def _end_fronts(self) -> None:
        """End the fronts when no owner is left: first ask them, then kill them."""
        if not self._is_stopping or any(job.pid for job in self._others):
            return
        if not self._kill_at:
            self._kill_at = monotonic() + END_SECONDS_MAX
            for job in self._fronts:
                if job.control is not None:
                    job.control.close()
                    job.control = None
        elif monotonic() > self._kill_at:
            for job in self._fronts:
                _send_signal(job, signal.SIGKILL)

    def _signal_all(self, number: int) -> None:
        for job in self._jobs:
            _send_signal(job, number)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            for job in self._jobs:
                if job.pid == pid:
                    self._ended(job, os.waitstatus_to_exitcode(status))

    def _ended(self, job: SupervisedJob, code: int) -> None:
        is_ready = job.control is not None and _is_ready(job.control)
        job.pid, job.was_ready = 0, job.was_ready or is_ready
        job.early_ends = 0 if is_ready else job.early_ends + 1
        if job.control is not None:
            job.control.close()
            job.control = None
        if self._is_stopping:
            if not job.is_front:
                self._exit_code = self._exit_code or _exit_code(code)
            return
        extra = {"action": "process_ended", "job": job.name, "code": code}
        log.warning("a process of the server ended", extra=extra)
        if _is_final(job, code):
            self._stop(_exit_code(code))
        elif job.early_ends >= EARLY_ENDS_MAX:
            extra = {"action": "process_given_up", "job": job.name}
            log.error("a process of the server cannot start", extra=extra)
            self._stop(_exit_code(code) or FAILED)
        else:
            job.start_at = monotonic() + _back_off(job.ends, monotonic())


def _is_final(job: SupervisedJob, code: int) -> bool:
    """Return True if the server ends with this process: it was asked to stop, the operator has to
    change something, or the server has never started."""
    return not job.is_front and (code in (0, OPERATOR_MUST_ACT) or not job.was_ready)


def _back_off(ends: deque[float], now: float) -> float:
    """Note an end; return the seconds to wait before the next start."""
    while ends and ends[0] < now - RECENT_SECONDS:
        ends.popleft()
    earlier = len(ends)
    ends.append(now)
    return min(WAIT_SECONDS_MAX, WAIT_SECONDS * 2 ** (earlier - 1)) if earlier else 0.0


def _exit_code(code: int) -> int:
    """Return the exit code as a shell shows it: a signal counts from 128 on."""
    return code if code >= 0 else 128 - code


def _send_signal(job: SupervisedJob, number: int) -> None:
    if job.pid:
        with suppress(ProcessLookupError):
            os.kill(job.pid, number)


def _is_ready(control: socket.socket) -> bool:
    """Return True if the process at the other end said that it is ready."""
    with suppress(OSError):
        return control.recv(len(READY), socket.MSG_DONTWAIT) == READY
    return False


def _connect(owner: SupervisedJob, front: SupervisedJob) -> None:
    """Send an owner and a front their ends of a new link, if both run."""
    if owner.control is None or front.control is None:
        return
    streams = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    channels = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    send_link(owner.control, LinkedProcess(front.name, front.pid), (streams[0], channels[0]))
    send_link(front.control, LinkedProcess(owner.name, owner.pid), (streams[1], channels[1]))
    for end in (*streams, *channels):
        end.close()


def _die_with(supervisor: int) -> None:
    """Let the kernel kill this process when its supervisor dies, so that none is left over.

    Elsewhere than on Linux, the process notices it by itself and stops.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != supervisor:
        os._exit(FAILED)
