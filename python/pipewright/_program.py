"""Calls the program `pipewright`, which plans, simulates and trains in a process of its own."""

import importlib.util
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

from ._messages import in_python


class PipewrightError(Exception):
    """What the program answered: what is wrong, where, and what to do. `code` is its exit code."""

    def __init__(self, message, code=1):
        super().__init__(message)
        self.code = code


def program():
    """The program and its environment: $PIPEWRIGHT, the installed one, that of this checkout, or one on the path."""
    package = pathlib.Path(__file__).resolve().parent
    installed, built = package / "bin" / "pipewright", package.parents[1] / "build" / "pipewright"
    named = os.environ.get("PIPEWRIGHT")
    if named:
        return named, None
    if installed.exists():
        return str(installed), with_libtorch()
    found = str(built) if built.exists() else shutil.which("pipewright")
    if not found:
        raise PipewrightError("the program pipewright is not found; build it with make, put it on the path, or name it "
                              "with the environment variable PIPEWRIGHT")
    return found, None


def with_libtorch():
    """An environment in which the installed program finds LibTorch: that of the installed torch."""
    environment = dict(os.environ)
    torch = importlib.util.find_spec("torch")
    if torch is not None:
        library = str(pathlib.Path(torch.origin).parent / "lib")
        before = environment.get("LD_LIBRARY_PATH")
        environment["LD_LIBRARY_PATH"] = library + (":" + before if before else "")
    return environment


def main():
    """The command `pipewright` of the package."""
    found, environment = program()
    os.execve(found, [found, *sys.argv[1:]], environment or os.environ)


def file_of(given):
    """Of a profile or a plan the file that has it; anything else as it is."""
    return getattr(given, "file", given)


def words_of(options):
    """--name value of keyword arguments; None and False are left out, a list is joined by commas."""
    words = []
    for name, given in options.items():
        if given is None or given is False:
            continue
        words.append("--" + name.replace("_", "-"))
        if given is not True:
            words.append(",".join(map(str, given)) if isinstance(given, (list, tuple)) else str(file_of(given)))
    return words


def message_of(text):
    """The last that the program says under its name, and what follows: before it there may be steps and warnings."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    last = max((i for i, line in enumerate(lines) if line.startswith("pipewright: ")), default=0)
    return "\n".join(lines[last:]).removeprefix("pipewright: ") or "the program ended without a message"


def call(command, *words, on_line=None, feeder=None, **options):
    """The JSON object that a command prints; `on_line` is called with the lines that it says meanwhile, and a feeder gives
    it samples.

    Ctrl-C reaches the program once, so that it can save what it has; a second one ends it.
    """
    found, environment = program()
    arguments = [found, command, *map(str, words), *words_of(options), "--json"]
    descriptors = feeder.descriptors() if feeder else ()
    if feeder:
        environment = dict(environment or os.environ, PIPEWRIGHT_FEED="{},{}".format(*descriptors))
    with tempfile.TemporaryFile("w+") as answer:
        running = subprocess.Popen(arguments, stdout=answer, stderr=subprocess.PIPE, text=True, env=environment,
                                   start_new_session=True, pass_fds=descriptors)
        if feeder:
            feeder.start()
        said = []
        try:
            for line in running.stderr:
                said.append(line)
                if on_line:
                    on_line(line.rstrip("\n"))
            running.wait()
        except BaseException:  # Ctrl-C, or an error of on_line
            end(running)
            raise
        finally:
            running.stderr.close()
        if running.returncode != 0:
            raise PipewrightError(in_python(message_of("".join(said))), running.returncode)
        answer.seek(0)
        return json.load(answer)


def end(running):
    try:
        running.send_signal(signal.SIGINT)
        for _ in running.stderr:  # it may say much while it saves
            pass
        running.wait()
    except BaseException:
        running.kill()
        running.wait()
        raise
