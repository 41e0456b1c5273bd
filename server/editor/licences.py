"""Print the name, version and licence text of each package in the bundle of the studio's editor."""

from __future__ import annotations

import json
import sys
from pathlib import Path


def main(directory: Path) -> None:
    """Read which packages the bundle is made of, and print what their licences require to be kept."""
    inputs = json.loads((directory / "meta.json").read_text())["inputs"]
    modules = (Path(name).parts for name in inputs if "node_modules" in name)
    packages = sorted({_package(parts[parts.index("node_modules") + 1 :]) for parts in modules})
    for package in packages:
        folder = directory / "node_modules" / package
        version = json.loads((folder / "package.json").read_text())["version"]
        [licence] = sorted(folder.glob("LICENSE*"))
        print(f"{package} {version}\n\n{licence.read_text().strip()}\n\n")


def _package(parts: tuple[str, ...]) -> str:
    return "/".join(parts[: 2 if parts[0].startswith("@") else 1])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
