"""Runs every command of bad_inputs.txt, in a folder of its own, and compares the
exit code and the message with what stands there.

    bad_inputs.py PIPEWRIGHT SOURCE_FOLDER [--print]

A case also fails if it reports a bug of ours, or leaves a temporary file. With
--print, the messages that are printed now stand in place of the expected ones.
"""

import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile

TABLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bad_inputs.txt")
SECONDS = 300  # a hang, not a slow machine


def cases():
    """(line number, exit code, command, message, needs the runtime)"""
    with open(TABLE, encoding="utf-8") as table:
        for number, line in enumerate(table, 1):
            line = line.rstrip("\n")
            if not line or line.startswith("#"):
                continue
            code, rest = line.split(" | ", 1)
            command, message = rest.rsplit(" | ", 1)
            runtime = code.endswith("*")
            yield number, int(code.rstrip("*")), command, message, runtime


def prepare(folder, pipewright, source):
    samples = os.path.join(source, "fuzz", "samples")
    for name, path in {
        "plan.json": os.path.join(source, "examples", "simulate", "plan.json"),
        "model.json": os.path.join(samples, "model", "tiny.json"),
        "cluster.json": os.path.join(samples, "cluster", "two_hosts.json"),
        "profile.json": os.path.join(samples, "profile", "two_layers.json"),
        "schedule.txt": os.path.join(samples, "schedule", "1f1b.txt"),
        "schedule.csv": os.path.join(samples, "schedule-csv", "1f1b.csv"),
        "instance.json": os.path.join(samples, "dnn-partitioning", "toy.json"),
    }.items():
        shutil.copy(path, os.path.join(folder, name))
        os.chmod(os.path.join(folder, name), 0o644)
    os.mkdir(os.path.join(folder, "folder"))
    for name, text in {"empty.json": "", "text.json": "hello, world\n"}.items():
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(text)
    with open(os.path.join(folder, "plan.json"), encoding="utf-8") as file:
        plan = file.read()
    with open(os.path.join(folder, "broken.json"), "w", encoding="utf-8") as file:
        file.write(plan[: len(plan) // 2])
    # V100s with an eighth of their memory.
    big = subprocess.run([pipewright, "cluster", "4xV100", "--json"], check=True,
                         capture_output=True, text=True).stdout
    with open(os.path.join(folder, "small.json"), "w", encoding="utf-8") as file:
        file.write(big.replace("\"memory\": 16000000000", "\"memory\": 2000000000"))


def write_tensors(path, tensors, change=None, length=None):
    """A safetensors file of float32 zeros; `change` alters its header, and
    `length` is what it says of it."""
    header, at = {}, 0
    for name, shape in tensors.items():
        size = 4
        for dimension in shape:
            size *= dimension
        header[name] = {"dtype": "F32", "shape": shape,
                        "data_offsets": [at, at + size]}
        at += size
    header = {**header, **(change or {})}
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text) if length is None else length))
        file.write(text + bytes(at))


def prepare_exported(folder, source):
    """tiny.json, an exported model; its weights and data; and wrong ones."""
    def path(name):
        return os.path.join(folder, name)
    with open(os.path.join(source, "fuzz", "samples", "exported", "tiny.json"),
              encoding="utf-8") as file:
        text = file.read()
    weights = {"fc.weight": [2, 4], "fc.bias": [2]}
    data = {"x": [64, 4], "target": [64, 2]}
    write_tensors(path("tiny.safetensors"), weights)
    write_tensors(path("data.safetensors"), data)
    def entry(begin, end, shape):
        return {"fc.bias": {"dtype": "F32", "shape": shape,
                            "data_offsets": [begin, end]}}
    write_tensors(path("w-overlap"), weights, entry(0, 8, [2]))
    write_tensors(path("w-beyond"), weights, entry(2**40, 2**40 + 8, [2]))
    write_tensors(path("w-reversed"), weights, entry(40, 32, [2]))
    write_tensors(path("w-huge"), weights, entry(32, 40, [2**62, 4]))
    write_tensors(path("w-length"), weights, length=2**63)
    write_tensors(path("w-missing"), {"fc.weight": [2, 4]})
    write_tensors(path("w-shape"), {"fc.weight": [4, 2], "fc.bias": [2]})
    write_tensors(path("d-fewer"), {**data, "target": [60, 2]})
    write_tensors(path("d-none"), {"x": [0, 4], "target": [0, 2]})
    write_tensors(path("d-shape"), {**data, "x": [64, 5]})
    write_tensors(path("d-name"), {"y": [64, 4], "target": [64, 2]})
    for name, old, new in (
            ("tiny.json", "", ""),
            ("m-operator.json", "%3 = t(%1)", "%3 = system(%1)"),
            ("m-arguments.json", "%3 = t(%1)", "%3 = t(%1, %1)"),
            ("m-writes.json", "%3 = t(%1)", "%3 = t_(%1)"),
            ("m-reads.json", "%3 = t(%1)", "%3 = t(%99)"),
            ("m-tensors.json", '"tensors": 5', '"tensors": 1099511627776'),
            ("m-version.json", '"version": 1', '"version": 99'),
            ("m-shape.json", '"shape": [2, 4]', '"shape": [1e18, 4]')):
        assert old in text, old
        with open(path(name), "w", encoding="utf-8") as file:
            file.write(text.replace(old, new, 1) if old else text)


def run(folder, pipewright, command):
    shell = f'pw() {{ "{pipewright}" "$@"; }}; {command}'
    answer = subprocess.run(["bash", "-c", shell], cwd=folder, timeout=SECONDS, text=True,
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, errors="replace", check=False)
    return answer.returncode, answer.stdout


def fault_of(folder, pipewright, code, command, message):
    try:
        found, text = run(folder, pipewright, command)
    except subprocess.TimeoutExpired:
        return f"did not end within {SECONDS} s"
    left = [name for name in os.listdir(folder) if ".tmp." in name]
    for name in left:
        os.remove(os.path.join(folder, name))
    if left:
        return f"left {left[0]}"
    if found != code:
        return f"exit code {found} instead of {code}: {text.strip()[-300:]}"
    if "a bug of ours" in text:
        return f"a bug: {text.strip()}"
    if message not in text:
        return f"expected \"{message}\", found: {text.strip()[-300:]}"
    return None


def main():
    pipewright, source = os.path.abspath(sys.argv[1]), sys.argv[2]
    has_runtime = os.path.exists(pipewright + "-runtime")
    faults, done, skipped = 0, 0, 0
    with tempfile.TemporaryDirectory() as folder:
        prepare(folder, pipewright, source)
        prepare_exported(folder, source)
        for number, code, command, message, runtime in cases():
            if runtime and not has_runtime:
                skipped += 1
                continue
            if "--print" in sys.argv:
                found, text = run(folder, pipewright, command)
                print(f"{found} | {command} | {text.strip()}")
                continue
            done += 1
            fault = fault_of(folder, pipewright, code, command, message)
            if fault:
                faults += 1
                print(f"{TABLE}:{number}: {command}\n    {fault}")
    print(f"{done} bad inputs, {faults} faults"
          + (f"; {skipped} need pipewright-runtime" if skipped else ""))
    return 1 if faults or (done < 300 and "--print" not in sys.argv) else 0


if __name__ == "__main__":
    sys.exit(main())
