# SPDX-License-Identifier: Apache-2.0
"""Rate limits as the settings want them."""

from tidings.actions.rate_limits import RateLimits
from tidings.assembly.processes import Others
from tidings.config import Config
from tidings.limiters.in_process import InProcessBuckets


def make_limits(config: Config, others: Others | None) -> RateLimits | None:
    """The limits of this process, shared with others if there are any; None: there are none."""
    if config.limits == "off":
        return None
    own = InProcessBuckets()
    if others is None:
        return RateLimits(own, own)
    from tidings.limiters.redis import RedisBuckets

    return RateLimits(RedisBuckets(others.link), own)
