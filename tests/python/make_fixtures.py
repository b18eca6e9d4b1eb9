"""make_fixtures.py FOLDER: exports the small networks for the C++ tests."""

import pathlib
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
import pipewright as pw
import small_networks


def main(folder):
    for name, (make, loss) in small_networks.ALL.items():
        torch.manual_seed(7)
        module, draw = make()
        print(pw.export(module, draw(3), loss=loss).save(folder / name))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
