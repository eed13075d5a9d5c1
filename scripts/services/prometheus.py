# SPDX-License-Identifier: Apache-2.0
"""Prometheus: the installed program, or that of Debian's package, with alert rules of ours."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import urlopen

import yaml

from scripts.services import promtool
from scripts.services.ports import HOST
from scripts.services.process import ServiceProcess

PROGRAM: Final = "prometheus"
ANSWER_SECONDS_MAX: Final = 10.0
_DURATION: Final = re.compile(r"\b(\d+)([mh])\b")


def sped_up(rules: str) -> str:
    """Return alert rules in which a second counts as a minute, so that tests can wait for them."""
    return _DURATION.sub(lambda found: f"{int(found[1]) * (60 if found[2] == 'h' else 1)}s", rules)


class PrometheusServer(ServiceProcess):
    """Prometheus, which reads metrics and evaluates rules every second."""

    name: ClassVar[str] = "Prometheus"

    def __init__(self, folder: Path, targets: Sequence[str], rules: str) -> None:
        super().__init__(folder)
        self._targets = list(targets)
        self._rules = rules

    @property
    def address(self) -> str:
        """The URL for clients."""
        return f"http://{HOST}:{self.port}"

    def command(self) -> list[str]:
        """Write the configuration, and return the command that uses it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "rules.yml").write_text(self._rules)
        config = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": ["rules.yml"],
            "scrape_configs": [
                {"job_name": "tidings", "static_configs": [{"targets": self._targets}]}
            ],
        }
        (self.folder / "prometheus.yml").write_text(yaml.safe_dump(config))
        return [
            str(promtool.obtain(PROGRAM)),
            f"--config.file={self.folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={self.folder / 'data'}",
            f"--web.listen-address={HOST}:{self.port}",
            "--log.level=warn",
        ]

    def answers(self) -> bool:
        """Return whether Prometheus answers queries."""
        try:
            with urlopen(f"{self.address}/-/ready", timeout=ANSWER_SECONDS_MAX) as answer:
                return bool(answer.status == 200)
        except (URLError, OSError):
            return False

    def firing(self) -> set[str]:
        """Return the names of the alerts that fire now."""
        alerts = self._ask("alerts")["alerts"]
        return {one["labels"]["alertname"] for one in alerts if one["state"] == "firing"}

    def sees_all(self) -> bool:
        """Return whether Prometheus has read the metrics of every target more than once."""
        found = self._ask("query", query="count_over_time(up[1m]) > 1")["result"]
        return len(found) == len(self._targets)

    def values(
        self, query: str, start: float, end: float, step: float
    ) -> list[tuple[Mapping[str, str], list[tuple[float, float]]]]:
        """Return the labels of each series of a query, and its values in a range of time."""
        found = self._ask("query_range", query=query, start=start, end=end, step=step)
        return [
            (one["metric"], [(float(at), float(value)) for at, value in one["values"]])
            for one in found["result"]
        ]

    def _ask(self, path: str, **query: object) -> Any:
        url = f"{self.address}/api/v1/{path}?{urlencode(query)}"
        with urlopen(url, timeout=ANSWER_SECONDS_MAX) as answer:
            return json.load(answer)["data"]
