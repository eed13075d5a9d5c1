# SPDX-License-Identifier: Apache-2.0
"""Alerts about Kafka, the relay and push notices in a real Prometheus, over a real fleet with load:
each fires during its fault, and clears."""

import asyncio
import secrets
from pathlib import Path

import pytest

from scripts.observability.rules import RULES
from scripts.services.ports import HOST, free_port
from scripts.services.prometheus import PrometheusServer, sped_up
from scripts.write_generated import ROOT
from tests.faults.test_alerts_fire import Watching, working
from tests.integration.socket_town import friends
from tests.support.cluster import Services, a_cluster
from tests.support.dynamo_tables import make_tables, new_prefix
from tests.support.people import Person
from tests.support.services import KafkaBroker
from tests.support.waiting import until
from tests.unit.stub_server import stub_server

ROLES = {"server": "gateway,api", "worker": "worker", "relay": "relay"}
PUSH = {"push": "webhook", "push_secret": secrets.token_urlsafe(32), "limits": "off"}


async def write(ann: Person, chat: str) -> None:
    """Send to somebody who is away, who therefore gets a push notice."""
    await ann.send(chat)
    await asyncio.sleep(0.1)


@pytest.mark.soak
async def test_each_alert_of_a_fleet_fires_during_its_fault_and_clears(
    tmp_path: Path, dynamodb_endpoint: str, own_kafka: KafkaBroker, redis_url: str
) -> None:
    services, prefix = Services(dynamodb_endpoint, own_kafka.address, redis_url), new_prefix()
    await make_tables(dynamodb_endpoint, prefix)
    ports = {name: free_port() for name in ROLES}
    status = 200
    with stub_server(lambda _: (status, {})) as webhook:
        more = {**PUSH, "push_url": webhook.url}
        own = {name: {"metrics": str(port)} for name, port in ports.items()}
        async with a_cluster(
            tmp_path / "fleet", services, prefix, ROLES, more=more, own=own
        ) as cluster:
            rules = sped_up((ROOT / RULES).read_text())
            targets = [f"{HOST}:{port}" for port in ports.values()]
            prometheus = PrometheusServer(tmp_path / "prometheus", targets, rules)
            await asyncio.to_thread(prometheus.start)
            try:
                watching = Watching(prometheus)
                await until(lambda: asyncio.to_thread(prometheus.sees_all))
                async with cluster.town("acme", "server") as town:
                    chat, (ann, _) = await friends(town, "ann", "bob")
                    async with working(lambda: write(ann, chat)):
                        status = 403
                        await watching.until_firing("TidingsPushFailing")
                        status = 200
                        # The broker stands still: its connections stay open, and nobody answers.
                        own_kafka.pause()
                        await watching.until_firing("TidingsBusLate", "TidingsRelayLate")
                        own_kafka.resume()
                        await watching.until_clear()
            finally:
                await asyncio.to_thread(prometheus.stop)
