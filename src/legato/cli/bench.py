"""`legato bench`: measurements of speed."""

from __future__ import annotations

import click


@click.group()
def bench() -> None:
    """Measure speed on this machine."""
