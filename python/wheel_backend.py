"""Builds the wheel of the Python package for pip (PEP 517): its modules and the two programs.

Programs that lie in build/ are taken as they are; otherwise CMake builds them, with the LibTorch that tools/libtorch
finds. The wheel asks for the version of torch that they were linked with.
"""

import base64
import hashlib
import os
import pathlib
import platform
import re
import subprocess
import sys
import tarfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
NAME = "pipewright"
PROGRAMS = ("pipewright", "pipewright-runtime")
REQUIRES_PYTHON = ">=3.10"


def version():
    return re.search(r"project\(\s*pipewright[^)]*VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text(), re.I)[1]


def build_programs():
    """Their folder."""
    folder = ROOT / "build"
    if not all((folder / program).exists() for program in PROGRAMS):
        try:
            subprocess.run(["cmake", "--preset", "release"], cwd=ROOT, check=True)
            subprocess.run(["cmake", "--build", str(folder), "--target", *PROGRAMS, "-j", str(os.cpu_count())], check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise SystemExit(f"the programs cannot be built ({error}); `make build` says what is missing") from error
    return folder


def torch_version(folder):
    """"2.13" of the LibTorch that a build folder links; None if that is not part of a Python package."""
    package = re.search(r"^PIPEWRIGHT_LIBTORCH:INTERNAL=(.*)$", (folder / "CMakeCache.txt").read_text(), re.M)
    file = pathlib.Path(package[1]) / "version.py" if package else None
    text = re.search(r"__version__ = '(\d+\.\d+)", file.read_text()) if file and file.exists() else None
    return text[1] if text else None


def metadata(torch):
    lines = ["Metadata-Version: 2.1", f"Name: {NAME}", f"Version: {version()}",
             "Summary: Plans, simulates and runs pipeline-parallel training of PyTorch models",
             "License: Apache-2.0", f"Requires-Python: {REQUIRES_PYTHON}", "Requires-Dist: numpy",
             "Requires-Dist: safetensors", "Requires-Dist: torch" + (f" (=={torch}.*)" if torch else "")]
    return "\n".join(lines) + "\n"


def tag():
    system = f"{sys.platform}_{platform.machine()}".replace("-", "_").replace(".", "_")
    return f"py3-none-{system}"


class Wheel:
    def __init__(self, folder, torch):
        self.name = f"{NAME}-{version()}-{tag()}.whl"
        self.info = f"{NAME}-{version()}.dist-info"
        self.records = []
        self.zip = zipfile.ZipFile(pathlib.Path(folder) / self.name, "w", zipfile.ZIP_DEFLATED)
        self.add(f"{self.info}/METADATA", metadata(torch))
        self.add(f"{self.info}/WHEEL",
                 f"Wheel-Version: 1.0\nGenerator: wheel_backend\nRoot-Is-Purelib: false\nTag: {tag()}\n")
        self.add(f"{self.info}/entry_points.txt", f"[console_scripts]\n{NAME} = {NAME}._program:main\n")

    def add(self, name, content, mode=0o644):
        data = content.encode() if isinstance(content, str) else content
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        self.records.append(f"{name},sha256={digest},{len(data)}")
        entry = zipfile.ZipInfo(name)
        entry.external_attr = (0o100000 | mode) << 16
        entry.compress_type = zipfile.ZIP_DEFLATED
        self.zip.writestr(entry, data)

    def close(self):
        self.zip.writestr(f"{self.info}/RECORD", "\n".join(self.records + [f"{self.info}/RECORD,,"]) + "\n")
        self.zip.close()
        return self.name


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    programs = build_programs()
    wheel = Wheel(wheel_directory, torch_version(programs))
    for file in sorted((ROOT / "python" / NAME).iterdir()):
        if file.suffix in (".py", ".typed"):
            wheel.add(f"{NAME}/{file.name}", file.read_bytes())
    for program in PROGRAMS:
        wheel.add(f"{NAME}/bin/{program}", (programs / program).read_bytes(), 0o755)
    return wheel.close()


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    """The modules of the checkout, which call its programs."""
    wheel = Wheel(wheel_directory, torch_version(build_programs()))
    wheel.add(f"{NAME}.pth", str(ROOT / "python") + "\n")
    return wheel.close()


def build_sdist(sdist_directory, config_settings=None):
    """What git has."""
    name = f"{NAME}-{version()}"
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True)
    with tarfile.open(pathlib.Path(sdist_directory) / f"{name}.tar.gz", "w:gz") as archive:
        for file in filter(None, listed.stdout.split("\0")):
            if (ROOT / file).exists():
                archive.add(ROOT / file, f"{name}/{file}")
    return f"{name}.tar.gz"
