"""`python -m legato` is the command line."""

from legato.cli import run

run()
