# SPDX-License-Identifier: Apache-2.0
"""The command `tidings capacity`, and the page about cost."""

import json
from pathlib import Path

import pytest

from scripts.cost_page import filled_in
from scripts.write_cost import PAGE
from tidings.cli import main
from tidings.stores.dynamodb.tables import TABLES
from tidings.tools.capacity_plan import plan
from tidings.tools.charges import Prices
from tidings.tools.traffic import Traffic


def test_the_command_plans(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "prices.toml").write_text('region = "mars-1"\nmillion_write_units = 6.25')
    options = ["--dau", "100_000_000", "--messages-per-day", "100", "--design", "counter-and-rows"]
    assert main(["capacity", *options, "--prices", str(tmp_path / "prices.toml")]) == 0
    told = capsys.readouterr().out
    assert "100,000,000 users per day send 10,000,000,000 messages" in told
    assert "mars-1" in told
    assert "counter-and-rows (estimated operations per second" in told
    for table in TABLES:
        assert f"\n{table.name} " in told


def test_the_command_speaks_to_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["capacity", "--json", "--design", "counter-and-rows"]) == 0
    told = json.loads(capsys.readouterr().out)
    planned = plan(Traffic(), Prices())
    assert told["dollars"] == pytest.approx(planned.dollars)
    assert told["tables"]["messages"]["suggested"] == "on demand"
    assert told["counter-and-rows"]["messages"] == {"reads": 100, "writes": 12, "gigabytes": 5}
    assert told["fleet"]["gateways"] >= 1
    assert told["load"]["dau"] == 10_000


@pytest.mark.parametrize(
    ("option", "value"),
    [("--dau", "many"), ("--group-share", "2"), ("--peak", "0.5"), ("--message-bytes", "5000")],
)
def test_the_command_refuses_what_cannot_be(
    option: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["capacity", option, value])
    assert ended.value.code == 2
    assert option in capsys.readouterr().err


def test_the_command_says_what_is_wrong_with_prices(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["capacity", "--prices", str(tmp_path / "none.toml")]) == 2
    assert "none.toml" in capsys.readouterr().err


def test_the_page_says_what_the_functions_say() -> None:
    page = PAGE.read_text()
    assert page == filled_in(page), "run: python -m scripts.write_cost"
