"""What experiments on a GPU share: whether there is one, a day and a machine
for each figure, and a folder of runs that have ended, so that a later call
goes on where this one stopped."""

import datetime
import json
import pathlib
import re
import subprocess
import sys
import time


def output(command, **settings):
    """What it prints. Ends this program, with its errors, where it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False,
                          **settings)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{done.stderr}")
    return done.stdout


def gpus(pipewright):
    """(their names, why there is none)."""
    found = json.loads(output([pipewright, "env", "--json"]))["gpus"]
    if isinstance(found, list) and found:
        return [gpu["name"] for gpu in found], ""
    why = found if isinstance(found, str) else "no GPU"
    return [], why.removeprefix("none: ")


def measured_on(names):
    day = datetime.datetime.now(datetime.timezone.utc).date()
    return f"{day} on {names[0]}" if names else f"{day} on cores"


class Runs:
    """One file per run that has ended, by its name, in a folder. After
    `seconds` no other is begun."""

    def __init__(self, folder, seconds=None, may_run=True):
        self.folder = pathlib.Path(folder)
        self.end = time.monotonic() + seconds if seconds else None
        self.may_run = may_run

    def file(self, name):
        return self.folder / (re.sub("[ ,/]", "-", name) + ".json")

    def stored(self, name):
        file = self.file(name)
        return json.loads(file.read_text(encoding="utf-8")) if file.exists() \
            else None

    def of(self, name, run):
        """The result of the run, now or earlier; None if it has not ended and
        may not begin."""
        known = self.stored(name)
        if known is not None or not self.may_run:
            return known
        if self.end and time.monotonic() > self.end:
            return None
        result = run()
        self.folder.mkdir(parents=True, exist_ok=True)
        temporary = self.file(name).with_suffix(".part")
        temporary.write_text(json.dumps(result) + "\n", encoding="utf-8")
        temporary.rename(self.file(name))
        return result
