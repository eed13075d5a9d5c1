# SPDX-License-Identifier: Apache-2.0
"""What all facts that travel from one engine to another have in common."""

import msgspec


class FactBase(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    forbid_unknown_fields=True,
    tag_field="fact",
):
    """One line of an export."""
