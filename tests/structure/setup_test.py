#!/usr/bin/env python3
"""tools/setup and tools/libtorch against machines made of stand-in commands.

    setup_test.py ROOT

Each machine is a folder of small scripts that is all its PATH has beside the
shell's own tools: an apt-get that writes down what it was asked, a dpkg-query
that knows what is installed, a sudo, an id that is not root. Nothing is
installed and nothing is fetched.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(sys.argv.pop(1) if len(sys.argv) > 1 else ".").resolve()
TOOLS = ["bash", "env", "dirname", "sed", "head", "grep", "uname", "cp", "mkdir"]
APT = 'echo "apt-get $*" >> "$MACHINE/asked"\n'
APT += '[ "$1" != install ] || printf "%s\\n" "$@" >> "$MACHINE/installed"\n'
DPKG = 'grep -qx -- "${@: -1}" "$MACHINE/installed" && printf installed\n'
SUDO = 'echo "sudo $1" >> "$MACHINE/asked"\nexec "$@"\n'


class Machine:
    """A copy of tools/ and a PATH with the named commands alone."""

    def __init__(self, folder, commands, user=0):
        self.folder = pathlib.Path(folder)
        self.bin = self.folder / "bin"
        self.bin.mkdir()
        (self.folder / "installed").touch()
        (self.folder / "asked").touch()
        shutil.copytree(ROOT / "tools", self.folder / "clone" / "tools")
        for tool in TOOLS:
            os.symlink(shutil.which(tool), self.bin / tool)
        self.command("id", f"echo {user}\n")
        for name, text in commands.items():
            self.command(name, text)

    def command(self, name, text):
        file = self.bin / name
        file.write_text(f"#!{shutil.which('bash')}\n{text}")
        file.chmod(0o755)

    def run(self, *line, **variables):
        path = self.folder / "clone" / "tools" / line[0]
        return subprocess.run(
            [path, *line[1:]], capture_output=True, text=True, timeout=60,
            env={"PATH": str(self.bin), "MACHINE": str(self.folder), **variables})

    def asked(self):
        return (self.folder / "asked").read_text().splitlines()

    def forget(self):
        (self.folder / "asked").write_text("")

    def torch(self, name, version):
        """A folder as find_package(Torch) wants it."""
        folder = self.folder / name
        folder.mkdir(parents=True)
        (folder / "TorchConfig.cmake").touch()
        (folder / "TorchConfigVersion.cmake").write_text(
            f'set(PACKAGE_VERSION "{version}")\n')
        return str(folder)


class MachineTest(unittest.TestCase):
    def machine(self, commands, user=0):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        return Machine(folder.name, commands, user)


class SetupTest(MachineTest):
    def test_missing_packages_are_installed_once(self):
        machine = self.machine({"apt-get": APT, "dpkg-query": DPKG})
        first = machine.run("setup", "core")
        self.assertEqual(first.returncode, 0, first.stderr)
        self.assertIn("setup: packages: installing", first.stdout)
        self.assertEqual([line.split()[1] for line in machine.asked()],
                         ["update", "install"])
        self.assertIn(" nlohmann-json3-dev", machine.asked()[1])
        self.assertNotIn("openmpi", machine.asked()[1])
        machine.forget()
        second = machine.run("setup", "core")
        self.assertEqual(second.returncode, 0, second.stderr)
        self.assertRegex(second.stdout, r"^setup: packages: all \d+ are installed\n$")
        self.assertEqual(machine.asked(), [])  # the network is left alone

    def test_only_what_is_missing(self):
        machine = self.machine({"apt-get": APT, "dpkg-query": DPKG})
        machine.run("setup", "core")
        machine.forget()
        machine.run("setup", "check")
        self.assertIn(" clang-14", machine.asked()[1])
        self.assertNotIn("ccache", machine.asked()[1])

    def test_a_user_installs_through_sudo(self):
        machine = self.machine({"apt-get": APT, "dpkg-query": DPKG, "sudo": SUDO}, 1000)
        answer = machine.run("setup", "core")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertEqual([line.split()[0] for line in machine.asked()],
                         ["sudo", "apt-get", "sudo", "apt-get"])

    def test_a_user_without_sudo_is_told_the_command(self):
        machine = self.machine({"apt-get": APT, "dpkg-query": DPKG}, 1000)
        answer = machine.run("setup", "core")
        self.assertEqual(answer.returncode, 1)
        self.assertIn("not root and no sudo; run as root: ", answer.stderr)
        self.assertEqual(machine.asked(), [])

    def test_without_apt_the_list_is_printed(self):
        machine = self.machine({})
        answer = machine.run("setup")
        self.assertEqual(answer.returncode, 1)
        for package in ["g++", "doctest-dev", "libopenmpi-dev", "torch==2.13.0"]:
            self.assertIn(package, answer.stderr)
        core = machine.run("setup", "core")
        self.assertEqual(core.returncode, 1)
        self.assertNotIn("torch", core.stderr)
        taken = machine.run("setup", "core", PIPEWRIGHT_NO_APT="1")
        self.assertEqual(taken.returncode, 0, taken.stderr)

    def test_apt_that_fails_is_not_hidden(self):
        machine = self.machine({"apt-get": "exit 100\n", "dpkg-query": DPKG})
        self.assertNotEqual(machine.run("setup", "core").returncode, 0)

    def test_usage(self):
        answer = self.machine({}).run("setup", "nonsense")
        self.assertNotEqual(answer.returncode, 0)
        self.assertIn("usage", answer.stderr)


class LibtorchTest(MachineTest):
    def test_torch_dir(self):
        machine = self.machine({})
        folder = machine.torch("torch", "2.12.1")
        answer = machine.run("libtorch", Torch_DIR=folder)
        self.assertEqual(answer.stdout.strip(), folder)

    def test_prefix_path(self):
        machine = self.machine({})
        folder = machine.torch("prefix/share/cmake/Torch", "2.11.0")
        prefix = str(machine.folder / "prefix")
        for prefixes in [prefix, "/nowhere:" + prefix, "/nowhere;" + prefix]:
            answer = machine.run("libtorch", CMAKE_PREFIX_PATH=prefixes)
            self.assertEqual(answer.stdout.strip(), folder)

    def test_the_python3_on_the_path(self):
        machine = self.machine({})
        folder = machine.torch("site/torch/share/cmake/Torch", "2.13.0")
        machine.command("python3", f'echo "{machine.folder}/site/torch"\n')
        self.assertEqual(machine.run("libtorch").stdout.strip(), folder)
        # With that, nothing is left to install but packages.
        machine.command("apt-get", APT)
        machine.command("dpkg-query", DPKG)
        answer = machine.run("setup")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertIn(f"setup: LibTorch: {folder}\n", answer.stdout)

    def test_another_version_is_passed_over(self):
        machine = self.machine({})
        old = machine.torch("old", "2.10.0")
        answer = machine.run("libtorch", "--explain", Torch_DIR=old)
        self.assertEqual((answer.returncode, answer.stdout), (1, ""))
        self.assertIn("is LibTorch 2.10.0; 2.11 to 2.13 is wanted", answer.stderr)

    def test_the_wheel_goes_into_venv(self):
        machine = self.machine({"apt-get": APT, "dpkg-query": DPKG})
        clone = machine.folder / "clone"
        package = clone / ".venv" / "torch"
        # The system's python3 has no torch and makes the environment, whose own
        # has one after pip has run.
        python = (f'case "$*" in *--version*) ;; *install*) "{machine.bin}/wheel" "$@" ;;'
                  f' *) [ ! -d "{package}" ] || echo "{package}" ;; esac\n')
        (machine.folder / "python").write_text(f"#!{machine.bin}/bash\n{python}")
        (machine.folder / "python").chmod(0o755)
        machine.command("python3", f'[ "$2" = venv ] || exit 0\n'
                                   f'mkdir -p "{clone}/.venv/bin"\n'
                                   f'cp "$MACHINE/python" "{clone}/.venv/bin/python3"\n')
        config = package / "share/cmake/Torch"
        machine.command(
            "wheel", f'echo "pip $*" >> "$MACHINE/asked"\nmkdir -p "{config}"\n'
                     f'echo > "{config}/TorchConfig.cmake"\n'
                     f'echo \'set(PACKAGE_VERSION "2.13.0")\' '
                     f'> "{config}/TorchConfigVersion.cmake"\n')
        answer = machine.run("setup")
        self.assertEqual(answer.returncode, 0, answer.stderr + answer.stdout)
        self.assertIn("torch==2.13.0 into .venv", answer.stdout)
        self.assertIn("torch==2.13.0", machine.asked()[-1])
        machine.forget()
        again = machine.run("setup")
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertEqual(machine.asked(), [])


if __name__ == "__main__":
    unittest.main(verbosity=1)
