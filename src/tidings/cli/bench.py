# SPDX-License-Identifier: Apache-2.0
"""`tidings bench`: measures a server while pairs of users chat; prints a table, draws a chart."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tidings.cli.server_access import server_url, trust_of
from tidings.cli.terminal import ProgressLine
from tidings.config import Config
from tidings.keyrings import read_root_key
from tidings.model.setup_error import SetupError

if TYPE_CHECKING:
    from tidings.tools.load_crowd import Crowd
    from tidings.tools.load_runs import Result

CHART: Final = Path("tidings-bench.svg")


def add_bench_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `tidings bench`."""
    parser.add_argument("--url", help="the server (the one that runs on the data folder)")
    parser.add_argument(
        "--root-key-file",
        type=Path,
        metavar="FILE",
        help="a file with the root key (root.key in the data folder)",
    )
    parser.add_argument(
        "--pairs", type=_count, nargs="+", default=[1, 10, 50, 200], metavar="N",
        help="numbers of pairs of users who write to each other (1 10 50 200)",
    )  # fmt: skip
    parser.add_argument(
        "--window", type=_count, nargs="+", default=[1, 8], metavar="N",
        help="numbers of unanswered sends of each user (1 8)",
    )  # fmt: skip
    parser.add_argument(
        "--seconds", type=float, default=5, help="duration of each run in seconds (5)"
    )
    parser.add_argument(
        "--tenant", default="bench", help="the tenant in which the users are created (bench)"
    )
    parser.add_argument(
        "--chart",
        type=Path,
        default=CHART,
        metavar="FILE",
        help=f"the file for the chart ({CHART})",
    )
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write the results to this file, too"
    )


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def bench(config: Config, options: argparse.Namespace) -> int:
    """Measure a server, print a table and draw a chart; return 1 if a message was lost, else 0.

    Raises:
        SetupError: The operator has to change something first.
    """
    # Imported here, because the other commands start faster without these modules.
    import msgspec
    import uvloop

    from tidings.tools.load_chart import picture
    from tidings.tools.load_talker import LoadStopped

    url, root_key = server_url(config, options.url, "--url"), _root_key(config, options)
    try:
        results = uvloop.run(_measure(url, root_key, options))
        options.chart.write_text(picture(results, f"Durable 1:1 messages at {url}"))
        if options.json is not None:
            options.json.write_bytes(msgspec.json.encode(results))
    except (LoadStopped, OSError) as error:
        raise SetupError(str(error)) from error
    print(f"chart: {options.chart}")
    return 1 if any(result.missing for result in results) else 0


async def _measure(url: str, root_key: str, options: argparse.Namespace) -> "list[Result]":
    from tidings.tools.load_crowd import Crowd, allow_connections
    from tidings.tools.load_runs import HEAD, line

    allow_connections(2 * max(options.pairs))
    print(f"Durable 1:1 messages at {url}; users and chats stay in the tenant {options.tenant}.")
    print(line(HEAD), flush=True)
    results = []
    async with Crowd(url, root_key, options.tenant, trust=trust_of(url)) as crowd:
        # Users stay connected between runs. In ascending order, each run uses all of them, so none
        # is idle.
        for pairs in sorted(options.pairs):
            for window in options.window:
                results.append(await _one(crowd, pairs, window, options.seconds))
                print(line(results[-1].row()), flush=True)
    return results


async def _one(crowd: "Crowd", pairs: int, window: int, seconds: float) -> "Result":
    from tidings.tools.load_runs import throughput

    what = f"{pairs} pairs, window {window}"
    with ProgressLine() as progress:
        progress.show(f"{what}: connecting")

        def tick(sent: int, elapsed: float) -> None:
            left = max(0, seconds - elapsed)
            progress.show(f"{what}: {sent / max(elapsed, 0.1):,.0f} messages/s, {left:.0f} s left")

        return await throughput(crowd, pairs, window, seconds, tick=tick)


def _root_key(config: Config, options: argparse.Namespace) -> str:
    if options.root_key_file is not None:
        try:
            return str(options.root_key_file.read_text().strip())
        except OSError as error:
            raise SetupError(f"{options.root_key_file}: {error.strerror}") from error
    key = config.keys.root_key or read_root_key(config.data)
    if key is None:
        raise SetupError(
            f"there is no root key in {config.data}: name its file with --root-key-file, or set "
            "TIDINGS_ROOT_KEY"
        )
    return key
