"""Reads a safetensors file and prints one line a tensor: name, type, shape and
the sum of its numbers. With the safetensors package where it is installed,
else with the few lines that the format takes."""

import json
import struct
import sys

FORMATS = {"F64": "d", "F32": "f", "I64": "q", "I32": "i", "U8": "B"}


def own_reader(path):
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        data = file.read()
    header.pop("__metadata__", None)
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        code = FORMATS[entry["dtype"]]
        numbers = struct.unpack(f"<{(end - begin) // struct.calcsize(code)}{code}",
                                data[begin:end])
        yield name, entry["dtype"], entry["shape"], sum(numbers)


def package_reader(path):
    from safetensors import safe_open

    names = {"float64": "F64", "float32": "F32", "int64": "I64", "int32": "I32",
             "uint8": "U8"}
    with safe_open(path, framework="np") as file:
        for name in file.keys():
            tensor = file.get_tensor(name)
            yield (name, names[str(tensor.dtype)], list(tensor.shape),
                   tensor.astype("float64").sum())


def main():
    try:
        import safetensors  # noqa: F401
        reader, which = package_reader, "safetensors"
    except ImportError:
        reader, which = own_reader, "own"
    print("reader", which)
    for name, dtype, shape, total in sorted(reader(sys.argv[1])):
        print(name, dtype, "x".join(map(str, shape)) or "1", f"{total:g}")


main()
