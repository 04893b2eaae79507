"""The command line: parses, calls, prints. Every decision lies behind it; `legato --help` imports no torch.

Exit codes: 0 done; 2 the user can mend it, a full disk included (one sentence on stderr); 130 interrupted; 141 the
reader of our output went away. A traceback is a bug in Legato.
"""

from __future__ import annotations

import os
import sys
from typing import TextIO

import click

from legato import __version__
from legato.cli.ask import ask
from legato.cli.bench import bench
from legato.cli.evaluate import evaluate
from legato.cli.listen import listen
from legato.cli.listening import listening
from legato.cli.say import say
from legato.cli.speak import speak
from legato.errors import LegatoError

INTERRUPTED, READER_GONE = 130, 141  # 128 + SIGINT, 128 + SIGPIPE


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="legato", message="%(prog)s %(version)s")
def legato() -> None:
    """A spoken question, heard by a large model, answered by a small one, and said by a small voice."""


for command in (ask, say, listen, speak, evaluate, bench, listening):
    legato.add_command(command)


def main(arguments: list[str]) -> int:
    """Run the command line once and return its exit code."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the caller
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - stays open as long as we run
        getattr(sys, name).reconfigure(errors="backslashreplace")  # a file name or an answer the terminal cannot show
    code = _run(arguments)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            _to_nowhere(stream)
    return code


def _run(arguments: list[str]) -> int:
    try:
        with legato.make_context("legato", list(arguments)) as context:
            legato.invoke(context)
        sys.stdout.flush()  # here, where a closed pipe can still be told from a bug
    except click.exceptions.Exit as exit_:
        return exit_.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return error.exit_code
    except click.UsageError as error:
        where = error.ctx.command_path if error.ctx else "legato"
        return _complain(f"{error.format_message().rstrip('.')}; see: {where} --help", error.exit_code)
    except LegatoError as error:
        return _complain(str(error), error.exit_code)
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    except BrokenPipeError:
        return READER_GONE
    except OSError as error:
        what = f"{error.strerror or error}{f' ({error.filename})' if error.filename else ''}"
        return _complain(f"a file cannot be read or written: {what}; mend that and give the same command again", 2)
    return 0


def _complain(sentence: str, code: int) -> int:
    try:
        click.echo(f"legato: {' '.join(sentence.split())}", err=True)
    except OSError:  # nobody can be told, but the exit code still tells
        _to_nowhere(sys.stderr)
    return code


def _to_nowhere(stream: TextIO) -> None:
    """Lose what the stream could not write, or the interpreter tries again when it ends and complains."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def run() -> None:
    """The console script."""
    sys.exit(main(sys.argv[1:]))
