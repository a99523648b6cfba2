"""The `latenttrack` command: finds a subcommand, runs it, and turns failures into one sentence and a code."""

import errno
import os
import signal
import sys
import threading
import traceback
from importlib import import_module
from typing import NoReturn, TypeGuard

import click

from latenttrack.errors import LatentTrackError

# Name -> (module:attribute, what `latenttrack --help` says). A module is imported only to run its command.
COMMANDS = {
    "demo": (
        "latenttrack.cli.demo:demo",
        "Train thirteen models on an embedded stream and compare them.",
    ),
    "fit": (
        "latenttrack.cli.fit:fit",
        "Fit a model to your own file and say what it is worth.",
    ),
    "bench": ("latenttrack.cli.bench:bench", "Train and compare models on a track or a file; resumable."),
    "stream": (
        "latenttrack.cli.stream:stream",
        "Predict a live stream: one JSON line in, one out.",
    ),
    "forecast": (
        "latenttrack.cli.forecast:forecast",
        "Forecast several steps ahead, as a table or a figure.",
    ),
    "models": ("latenttrack.cli.models:models", "List the models and how many numbers each one learns."),
    "data": ("latenttrack.cli.data:data", "Fetch a public dataset, or show what it holds."),
    "report": ("latenttrack.cli.report:report", "Make one HTML page with every table and figure of a bench."),
    "inspect": ("latenttrack.cli.inspect:inspect", "Show what a latenttrack file contains."),
}


class LazyGroup(click.Group):
    """A group that knows its commands' names and help lines, and imports only the one that is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Give the names in the order of `COMMANDS`."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command; None if there is none of that name."""
        if cmd_name not in COMMANDS:
            return None
        module, attribute = COMMANDS[cmd_name][0].split(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands in the help without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="latenttrack", prog_name="latenttrack")
def cli() -> None:
    """Online probabilistic prediction on streams that drift."""


def main() -> NoReturn:
    """Run the command line and exit.

    Exit codes: 0 done; 1 a bug in latenttrack, or nobody reads the output any more; 2 a problem that the
    user can mend; 130 interrupted.
    """
    sys.unraisablehook = _repeat_a_lost_interrupt
    try:
        result = cli.main(prog_name="latenttrack", standalone_mode=False)
        # Flushed here, where a closed pipe can still be caught.
        sys.stdout.flush()
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except LatentTrackError as error:
        _fail(str(error), code=2)
    except (click.Abort, KeyboardInterrupt) as error:
        _fail(str(error) or "interrupted", code=130)
    except BrokenPipeError:
        _drop_output()
        sys.exit(1)
    except Exception as error:
        if _is_of_output(error):
            _drop_output()
            _fail(
                f"cannot write standard output: {error.strerror}; free some space, or write elsewhere", code=2
            )
        _fail(
            f"unexpected {type(error).__name__}: this is a bug in latenttrack; please report it, "
            "with what the same command prints when LATENTTRACK_DEBUG=1 is set",
            code=1,
        )
    # click gives the code of an early exit (such as --help) as the result; commands themselves return None.
    sys.exit(result if isinstance(result, int) else 0)


def _is_of_output(error: Exception) -> TypeGuard[OSError]:
    """Whether there is no room for what a command prints; files of a name tell that themselves."""
    full = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
    return isinstance(error, OSError) and error.filename is None and error.errno in full


def _drop_output() -> None:
    """Write what is left to nowhere: Python flushes once more on its way out, which must not fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _repeat_a_lost_interrupt(lost: "sys.UnraisableHookArgs") -> None:
    """Send Ctrl-C again where Python dropped it: in a destructor, or in a callback of the garbage collector.

    jax has such a callback, and a user who is not heard will press again, harder.
    """
    if lost.exc_type is not KeyboardInterrupt or not hasattr(signal, "pthread_kill"):
        sys.__unraisablehook__(lost)
        return
    # To the main thread, which may sleep; and a little later, for here it would be dropped as well.
    main_thread = threading.main_thread().ident
    again = threading.Timer(0.05, signal.pthread_kill, (main_thread, signal.SIGINT))
    again.daemon = True
    again.start()


def _fail(sentence: str, code: int) -> NoReturn:
    if os.environ.get("LATENTTRACK_DEBUG") == "1":
        traceback.print_exc()
    click.echo(f"latenttrack: {sentence}", err=True)
    sys.exit(code)
