import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

# Runs the real entry point with one more command, `boom`, taken from a module beside the test's files.
WITH_BOOM = """
import sys
from latenttrack.cli import main
main.COMMANDS["boom"] = ("boom:boom", "Fails in some way.")
main.main()
"""

LISTING_MODULES = """
import sys
from latenttrack.cli.main import main
try:
    main()
finally:
    print(*sys.modules, file=sys.stderr)
"""

BOOM = """
import gc
import signal
import time
import click
from latenttrack.errors import LatentTrackError

@click.command()
@click.argument("how")
def boom(how):
    if how == "ours":
        raise LatentTrackError("the column 'x' is missing; name another")
    if how == "bug":
        raise ZeroDivisionError("secret detail")
    if how == "wait":
        print("ready", flush=True)
        time.sleep(60)
    if how == "collect":
        # As when Ctrl-C comes while jax's callback of the garbage collector is at work.
        gc.callbacks.append(lambda phase, info: phase == "start" and signal.raise_signal(signal.SIGINT))
        gc.collect()
        gc.callbacks.clear()
        time.sleep(60)
    if how == "whisper":
        print("line")
    if how == "talk":
        for _ in range(100_000):
            print("line")
"""


def run(*arguments, **options):
    return subprocess.run(arguments, capture_output=True, text=True, timeout=60, check=False, **options)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize("command", ["models", "--help"])
def test_output_without_room_is_one_sentence(command):
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "latenttrack", command],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 2
    assert done.stderr.startswith("latenttrack: cannot write standard output: No space left")
    assert done.stderr.count("\n") == 1


def latenttrack(*arguments):
    return run(sys.executable, "-c", "from latenttrack.cli.main import main; main()", *arguments)


@pytest.fixture
def boom(tmp_path):
    """The command line and environment that run `boom`."""
    (tmp_path / "boom.py").write_text(BOOM)
    # Output is buffered for most users, and then a closed pipe shows only when the buffer is flushed.
    unwanted = {"LATENTTRACK_DEBUG", "PYTHONUNBUFFERED"}
    environment = {name: value for name, value in os.environ.items() if name not in unwanted}
    environment["PYTHONPATH"] = os.pathsep.join([str(tmp_path), environment.get("PYTHONPATH", "")])
    return [sys.executable, "-c", WITH_BOOM, "boom"], environment


def imported_by(*arguments):
    """The modules that are imported while the command line answers."""
    result = run(sys.executable, "-c", LISTING_MODULES, *arguments)
    assert result.returncode == 0, result.stderr
    return set(result.stderr.split())


@pytest.mark.parametrize("arguments", [["--help"], ["--version"]])
def test_help_and_version_import_nothing_heavy(arguments):
    modules = imported_by(*arguments)
    assert "click" in modules
    heavy = {"jax", "numpy", "safetensors", "rich", "scipy", "latenttrack.cli.inspect", "latenttrack.store"}
    assert not modules & heavy


def test_help_names_every_command():
    from latenttrack.cli.main import COMMANDS

    result = latenttrack("--help")
    assert result.returncode == 0
    for name, (_, summary) in COMMANDS.items():
        assert re.search(rf"^  {name} +{re.escape(summary)}$", result.stdout, re.MULTILINE)


def test_every_command_exists_and_says_what_the_help_says():
    import click

    from latenttrack.cli.main import COMMANDS, cli

    context = click.Context(cli)
    for name, (_, summary) in COMMANDS.items():
        command = cli.get_command(context, name)
        assert command.name == name
        assert command.help.startswith(summary)


def test_installed_script_and_version():
    from importlib.metadata import version

    script = os.path.join(os.path.dirname(sys.executable), "latenttrack")  # noqa: PTH118, PTH120
    result = run(script, "--version")
    assert (result.returncode, result.stdout.strip()) == (0, f"latenttrack, version {version('latenttrack')}")


@pytest.mark.parametrize(
    "arguments", [["nonsense"], ["--nonsense"], ["inspect"], ["inspect", "--nonsense", "file"], []]
)
def test_usage_errors_exit_with_2(arguments):
    result = latenttrack(*arguments)
    assert result.returncode == 2
    assert result.stdout == ""
    assert "Usage: latenttrack" in result.stderr
    assert "Traceback" not in result.stderr


def test_our_error_is_one_sentence(boom):
    command, environment = boom
    result = run(*command, "ours", env=environment)
    assert result.returncode == 2
    assert result.stderr == "latenttrack: the column 'x' is missing; name another\n"


def test_unexpected_error_asks_for_a_report(boom):
    command, environment = boom
    result = run(*command, "bug", env=environment)
    assert result.returncode == 1
    assert re.fullmatch(
        r"latenttrack: unexpected ZeroDivisionError.*report.*LATENTTRACK_DEBUG=1.*\n", result.stderr
    )


@pytest.mark.parametrize(("how", "code"), [("bug", 1), ("ours", 2)])
def test_debug_shows_the_traceback(boom, how, code):
    command, environment = boom
    result = run(*command, how, env=environment | {"LATENTTRACK_DEBUG": "1"})
    assert result.returncode == code
    assert result.stderr.startswith("Traceback")
    assert "boom.py" in result.stderr
    assert result.stderr.splitlines()[-1].startswith("latenttrack: ")


def test_interrupt(boom):
    command, environment = boom
    with subprocess.Popen(
        [*command, "wait"], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout.readline() == "ready\n"
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=30)
        finally:
            process.kill()
    assert process.returncode == 130
    assert errors.strip() == "latenttrack: interrupted"


def test_an_interrupt_that_python_dropped_is_sent_again(boom):
    command, environment = boom
    result = run(*command, "collect", env=environment)
    assert (result.returncode, result.stderr.strip()) == (130, "latenttrack: interrupted")


@pytest.mark.parametrize("arguments", [["boom", "talk"], ["boom", "whisper"], ["--help"]])
def test_closed_pipe_is_quiet(boom, arguments):
    command, environment = boom
    read_end, write_end = os.pipe()
    os.close(read_end)
    try:
        result = subprocess.run(
            [*command[:-1], *arguments], env=environment, stdout=write_end, stderr=subprocess.PIPE, timeout=60
        )
    finally:
        os.close(write_end)
    assert result.stderr == b""
    assert result.returncode == 1
