# SPDX-License-Identifier: Apache-2.0
"""Assigns the samples of a profile to the stages of a message."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

_PYTHON_FRAME: Final = re.compile(r"(?P<name>\S+) \((?P<file>[^:()]+):\d+\)")

BY_FUNCTION: Final = {
    "Connection.on_ws_frame": "frame in",
    "Connection._take": "frame in",
    "Connection.perform": "frame in",
    "Connection.send": "socket out",
    "Connection._queue": "socket out",
    "Connection.flush": "socket out",
    "text_header": "socket out",
    "_backlog": "socket out",
    "Connection.confirm": "answer",
    "WritingRequests._sent": "answer",
    "Send.kept": "answer",
    "Send.decide": "append",
    "Writer._commit": "commit",
}
"""Stages by the name of the function. They take precedence over `BY_FILE`, because some files have
functions of several stages."""

BY_FILE: Final = {
    "tidings/gateway/conversation.py": "decode",
    "tidings/gateway/requests.py": "checks",
    "tidings/gateway/writing.py": "checks",
    "tidings/gateway/answer_frames.py": "answer",
    "tidings/actions/chat/sending.py": "checks",
    "tidings/actions/chat/message_checks.py": "checks",
    "tidings/actions/chat/retention.py": "checks",
    "tidings/actions/content/vault.py": "encryption",
    "tidings/actions/content/data_keys.py": "encryption",
    "tidings/actions/chat/appender.py": "append",
    "tidings/actions/chat/chat_queue.py": "append",
    "tidings/tasks.py": "loop and socket in",
    "tidings/model/chats.py": "append",
    "tidings/stores/sqlite/chat/log.py": "statements",
    "tidings/stores/sqlite/engine/writer.py": "statements",
    "tidings/stores/sqlite/chat/runs.py": "statements",
    "tidings/stores/sqlite/engine/rows.py": "statements",
    "tidings/stores/sqlite/engine/checkpoints.py": "commit",
    "tidings/stores/sqlite/engine/connections.py": "commit",
    "concurrent/futures/thread.py": "commit",
    "concurrent/futures/_base.py": "commit",
    "tidings/delivery/fan_out.py": "fan-out",
    "tidings/delivery/local_delivery.py": "fan-out",
    "tidings/buses/in_process.py": "fan-out",
    "tidings/gateway/stream.py": "fan-out",
    "tidings/gateway/progress.py": "fan-out",
    "tidings/gateway/hub.py": "fan-out",
    "tidings/wire/frames.py": "encode",
    "tidings/wire/entry_frames.py": "encode",
    "tidings/actions/chat/coalesced_receipts.py": "receipts",
    "tidings/actions/chat/reading.py": "receipts",
    "tidings/stores/sqlite/chat/receipts.py": "receipts",
    "asyncio/runners.py": "loop and socket in",
}

IDLE: Final = "_worker (concurrent/futures/thread.py:81)"
"""Frame of a thread that waits for work. The sampler wakes such a thread and then finds it
running."""

STAGES: Final = (
    "loop and socket in", "frame in", "decode", "checks", "encryption", "append", "statements",
    "commit", "answer", "encode", "fan-out", "socket out", "receipts", "other",
)  # fmt: skip

SYSTEM_CALLS: Final = {
    "socket out": ("send", "sendto", "sendmsg", "write", "writev"),
    "socket in": ("recv", "recvfrom", "recvmsg", "read", "readv"),
    "waiting for sockets": ("epoll_wait", "epoll_pwait", "epoll_ctl"),
    "disk": ("pwrite", "pwrite64", "pread", "pread64", "fdatasync", "fsync", "fcntl", "ftruncate"),
    "threads": ("futex", "sched_yield", "clock_nanosleep"),
    "memory": ("exc_page_fault", "munmap", "mprotect", "madvise", "brk"),
}
_CALL_PREFIX: Final = re.compile(r"^(__x64_sys_|ksys_|__libc_|__GI_+|__)")

LIBRARIES: Final = (
    ("_rust.abi3", "encryption"),
    ("_blake2", "digest"),
    ("apsw", "SQLite"),
    ("msgspec", "JSON"),
    ("picows", "frames"),
    ("uvloop", "event loop"),
    ("python3", "interpreter"),
    ("libc", "C library"),
)


def by_stage(stacks: Iterable[str]) -> Counter[str]:
    """Count the samples of each stage in the collapsed stacks of py-spy."""
    found: Counter[str] = Counter()
    for stack in stacks:
        frames, _, count = stack.rpartition(" ")
        if not frames.endswith(IDLE):
            found[_stage(frames.split(";"))] += int(count)
    return found


def _stage(frames: list[str]) -> str:
    """Return the stage of the innermost frame that belongs to a stage."""
    for frame in reversed(frames):
        if (match := _PYTHON_FRAME.fullmatch(frame.strip())) is None:
            continue
        name, file = match["name"], match["file"]
        if name in BY_FUNCTION:
            return BY_FUNCTION[name]
        for ending, stage in BY_FILE.items():
            if file.endswith(ending):
                return stage
    return "other"


def by_component(script: Iterable[str], main_thread: int) -> Counter[str]:
    """Count the samples of each component in the output of `perf script -F tid,ip,sym,dso`."""
    found: Counter[str] = Counter()
    for thread, chain in _samples(script):
        where = _component(chain)
        if where == "SQLite":
            where = "SQLite, statements" if thread == main_thread else "SQLite, commit"
        found[where] += 1
    return found


def _samples(script: Iterable[str]) -> Iterator[tuple[int, list[tuple[str, str]]]]:
    """Yield for each sample the thread, and pairs of symbol and library, innermost frame first."""
    thread: int | None = None
    chain: list[tuple[str, str]] = []
    for line in script:
        text = line.strip()
        if text and not line.startswith(("\t", " " * 8)):
            thread, chain = int(text.split()[0]), []
        elif text:
            _, _, rest = text.partition(" ")
            symbol, _, library = rest.rpartition(" ")
            chain.append((symbol, library.strip("()")))
        elif thread is not None and chain:
            yield thread, chain
            thread, chain = None, []


def _component(chain: list[tuple[str, str]]) -> str:
    symbol, library = chain[0]
    if "kernel" in library or library == "[unknown]":
        return f"kernel, {_system_call(chain)}"
    for part, component in LIBRARIES:
        if part in library:
            is_collecting = symbol.startswith(("gc_collect", "visit_", "subtract_refs"))
            return "garbage collection" if is_collecting else component
    return "other"


def _system_call(chain: list[tuple[str, str]]) -> str:
    for symbol, _ in chain:
        name = _CALL_PREFIX.sub("", symbol)
        for what, names in SYSTEM_CALLS.items():
            if name in names:
                return what
    return "other"
