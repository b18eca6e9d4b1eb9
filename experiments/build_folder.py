"""Where the programs are that an experiment runs: in the folder BUILD of the
environment, which is `build` unless it is set, and relative to the repository."""

import os
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[1]


def build_folder():
    return ROOT / os.environ.get("BUILD", "build")


def built_program():
    return str(build_folder() / "pipewright")
