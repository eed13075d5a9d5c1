# SPDX-License-Identifier: Apache-2.0
"""Commands that show what a running deployment does: its state, connections and audit trail.

`tidings state` shows the processes, the store, the newest backup and the settings in effect,
`tidings connections` the open connections of a user, `tidings explain` what became of a message,
`tidings trace` deliveries while they happen, `tidings reports` what users have reported, and
`tidings audit` who did what.
"""

import argparse
from collections.abc import Iterable
from itertools import islice
from time import monotonic, sleep
from typing import Final
from urllib.parse import quote, urlencode

import msgspec

from tidings.cli.server_access import (
    Row,
    add_server_option,
    known_root_key,
    print_row,
    request,
    rows,
    server_url,
)
from tidings.config import Config
from tidings.model.reports import REPORT_STATES

ACTS_DEFAULT: Final = 50
TRACE_SECONDS: Final = 60
TRACE_PAUSE_SECONDS: Final = 1.0
PAGE_MAX: Final = 100
_UNITS: Final = ("B", "kB", "MB", "GB", "TB")
_HOUR_SECONDS: Final = 3_600


def add_state_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `tidings state`."""
    parser.set_defaults(act=_show_state)
    parser.add_argument(
        "--settings", action="store_true", help="also show the settings in effect, and their source"
    )
    _add_common(parser)


def add_connections_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `tidings connections`."""
    parser.set_defaults(act=_list_connections)
    parser.add_argument("tenant", metavar="TENANT", help="the tenant of the user")
    parser.add_argument("user", metavar="USER", help="the user")
    _add_common(parser)


def add_audit_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `tidings audit`."""
    parser.set_defaults(act=_list_acts)
    parser.add_argument("tenant", metavar="TENANT", nargs="?", help="only acts on this tenant")
    parser.add_argument(
        "--limit",
        type=int,
        default=ACTS_DEFAULT,
        metavar="N",
        help=f"number of acts to show, the newest first ({ACTS_DEFAULT})",
    )
    _add_common(parser)


def add_reports_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `tidings reports`."""
    parser.set_defaults(act=_list_reports)
    parser.add_argument("tenant", metavar="TENANT", help="the tenant of the users")
    parser.add_argument("--state", choices=REPORT_STATES, help="only reports in this state")
    parser.add_argument("--sealed", action="store_true", help="leave out what users wrote")
    parser.add_argument(
        "--limit",
        type=int,
        default=ACTS_DEFAULT,
        metavar="N",
        help=f"number of reports to show, the newest first ({ACTS_DEFAULT})",
    )
    _add_common(parser)


def add_explain_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `tidings explain`."""
    parser.set_defaults(act=_explain)
    parser.add_argument("tenant", metavar="TENANT", help="the tenant of the user")
    parser.add_argument("user", metavar="USER", help="the user who did not get it")
    parser.add_argument("--message", metavar="ID", help="the id of the message")
    parser.add_argument("--notification", metavar="ID", help="the id of the notification")
    parser.add_argument(
        "--inbox", metavar="NAME", help="its inbox, if several have a notification with this id"
    )
    parser.add_argument(
        "--request", metavar="ID", help="the X-Request-Id of a request, or the id of a frame"
    )
    _add_common(parser)


def add_trace_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `tidings trace`."""
    parser.set_defaults(act=_trace)
    parser.add_argument("tenant", metavar="TENANT", help="the tenant of the user or chat")
    traced = parser.add_mutually_exclusive_group(required=True)
    traced.add_argument("--user", metavar="USER", help="trace what is delivered to this user")
    traced.add_argument("--chat", metavar="ID", help="trace what is delivered in this chat")
    parser.add_argument(
        "--seconds",
        type=float,
        default=TRACE_SECONDS,
        metavar="N",
        help=f"end after this time ({TRACE_SECONDS}); 0 shows the last minute only",
    )
    _add_common(parser)


def _add_common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON, one object per line")
    add_server_option(parser)


def show(config: Config, options: argparse.Namespace) -> int:
    """Run the command on the server; return the exit code.

    Raises:
        SetupError: The operator has to change something first.
    """
    url = server_url(config, options.server, "--server")
    options.act(f"{url.rstrip('/')}/v1", known_root_key(config), options)
    return 0


def _show_state(where: str, root_key: str, options: argparse.Namespace) -> None:
    answer = request("GET", f"{where}/state", root_key)
    if options.json:
        print(answer.decode())
        return
    state: Row = msgspec.json.decode(answer)
    totals = state["totals"]
    print_row(
        f"{totals['processes']} processes",
        f"{totals['sockets']} sockets",
        f"{totals['rates']['messages']:g} messages/s",
        None if state["complete"] else "other processes are unknown: Redis does not answer",
    )
    for process in state["processes"]:
        _print_process(process)
    _print_store(state)
    if options.settings:
        for setting in state["settings"]:
            value = "(secret)" if setting["secret"] else setting["value"] or "(none)"
            print_row(setting["name"], value, setting["source"])


def _print_process(process: Row) -> None:
    lags, latencies = process["lags"], process["latencies"]
    print_row(
        process["name"],
        process["status"],
        ",".join(process["roles"]),
        f"{process['host']} pid {process['pid']}",
        process["version"],
        f"since {process['started_at']}",
        f"{process['sockets']} sockets",
        f"{process['rates']['messages']:g} messages/s",
        _seconds("send p99", latencies["send"]["p99"]),
        _seconds("delivery p99", latencies["delivery"]["p99"]),
        _seconds("bus", lags["bus_seconds"]),
        None if lags["sees_revocations"] else "reads no revocations",
        f"{lags['failing_loops']} failing loops" if lags["failing_loops"] else None,
    )


def _print_store(state: Row) -> None:
    store, backups = state["store"], state["backups"]
    print_row(
        store["engine"],
        store["location"],
        None if store["size_bytes"] is None else _size(store["size_bytes"]),
        None if store["free_bytes"] is None else f"{_size(store['free_bytes'])} free",
    )
    if backups["newest_at"] is not None:
        hours = backups["age_seconds"] / _HOUR_SECONDS
        print_row("newest backup", backups["newest_at"], f"{hours:.1f} hours ago")
    elif store["engine"] == "sqlite":
        print("no backup")


def _list_connections(where: str, root_key: str, options: argparse.Namespace) -> None:
    tenant, user = quote(options.tenant, safe=""), quote(options.user, safe="")
    path = f"{where}/tenants/{tenant}/users/{user}/connections"
    found: Row = msgspec.json.decode(request("GET", path, root_key))
    if options.json:
        _print_lines(found["data"])
        return
    for one in found["data"]:
        print_row(
            one["connection_id"],
            one["device"],
            one["client"],
            one["address"],
            f"since {one['since']}",
            f"{one['unacknowledged']} of {one['window']} unacknowledged",
            f"{one['behind']} of {one['chats']} chats behind" if one["behind"] else None,
            f"received {one['last_received_at']}" if one["last_received_at"] else None,
            "away" if one["away"] else None,
            f"on {one['process']}",
        )
    if not found["complete"]:
        print("A process did not answer, so connections may be missing.")
    elif not found["data"]:
        print(f"{options.user} is not connected.")


def _explain(where: str, root_key: str, options: argparse.Namespace) -> None:
    query = {
        "user_id": options.user,
        "message_id": options.message,
        "notification_id": options.notification,
        "inbox": options.inbox,
        "request_id": options.request,
    }
    asked = urlencode({name: value for name, value in query.items() if value is not None})
    path = f"{where}/tenants/{quote(options.tenant, safe='')}/explain?{asked}"
    answer = request("GET", path, root_key)
    if options.json:
        print(answer.decode())
        return
    found: Row = msgspec.json.decode(answer)
    print_row(found["code"], found["verdict"], f"since {found['since']}")
    for moment in found["timeline"]:
        print_row(moment["at"], moment["what"], moment["where"])
    if found["next_step"] is not None:
        print(found["next_step"])


def _trace(where: str, root_key: str, options: argparse.Namespace) -> None:
    subject = {"user_id": options.user} if options.user else {"chat_id": options.chat}
    path = f"{where}/tenants/{quote(options.tenant, safe='')}/trace"
    ends, asked = monotonic() + options.seconds, subject
    while True:
        found: Row = msgspec.json.decode(request("GET", f"{path}?{urlencode(asked)}", root_key))
        asked = {**subject, "cursor": found["next_cursor"]}
        if options.json:
            _print_lines(found["data"])
        else:
            _print_steps(found)
        left = ends - monotonic()
        if left <= 0:
            return
        sleep(min(TRACE_PAUSE_SECONDS, left))


def _print_steps(found: Row) -> None:
    if not found["complete"]:
        print("There were too many steps: some are missing here.")
    for step in found["data"]:
        message = None if step["sequence"] is None else f"{step['chat_id']}.{step['sequence']}"
        print_row(step["at"], step["what"], step["user_id"], message, step["where"])


def _list_acts(where: str, root_key: str, options: argparse.Namespace) -> None:
    if options.tenant is not None:
        where = f"{where}/tenants/{quote(options.tenant, safe='')}"
    page = max(1, min(options.limit, PAGE_MAX))
    acts = islice(rows(f"{where}/audit", root_key, limit=page), max(0, options.limit))
    if options.json:
        _print_lines(acts)
        return
    for act in acts:
        print_row(
            act["at"],
            " ".join(filter(None, (act["actor"], act["actor_id"]))),
            act["action"],
            act["tenant"],
            act["target"],
            " ".join(act["fields"]) or None,
            act["outcome"],
            act["code"],
            act["request_id"],
        )


def _list_reports(where: str, root_key: str, options: argparse.Namespace) -> None:
    where = f"{where}/tenants/{quote(options.tenant, safe='')}/reports"
    page = max(1, min(options.limit, PAGE_MAX))
    asked = {} if options.state is None else {"state": options.state}
    asked |= {"sealed": "true"} if options.sealed else {}
    reports = islice(rows(where, root_key, asked, limit=page), max(0, options.limit))
    if options.json:
        _print_lines(reports)
        return
    for report in reports:
        message = None if report["chat_id"] is None else f"{report['chat_id']}.{report['sequence']}"
        print_row(
            report["created_at"],
            report["report_id"],
            report["state"],
            report["reason"],
            f"{report['user_id']} reported by {report['reporter_id']}",
            message,
            report["content"],
            report["comment"],
        )


def _print_lines(found: Iterable[Row]) -> None:
    for row in found:
        print(msgspec.json.encode(row).decode())


def _seconds(what: str, seconds: float | None) -> str | None:
    return None if seconds is None else f"{what} {seconds:g} s"


def _size(count: float) -> str:
    for unit in _UNITS[:-1]:
        if count < 1_000:
            return f"{count:.3g} {unit}"
        count /= 1_000
    return f"{count:.3g} {_UNITS[-1]}"
