"""How the files of the library hang together: the graph of its object files.

`nm` says which object defines a symbol and which one needs it. There is no circle between objects,
and no object needs one of a layer above its own.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
BUILD = Path(os.environ.get("ATTNPRESS_BUILD_DIR", ROOT / "build"))
OBJECTS = [BUILD / "CMakeFiles" / f"attnpress_{part}.dir" for part in ("runtime", "generated")]

# From the bottom up; a folder of runtime/, or one file of it, and the longest that fits counts.
# What is generated stands below press, whose tables it is; the calls stand on all that is general,
# the families on the calls.
LAYERS = [
    ["core"],
    ["cuda/driver", "cuda/tensor_map"],
    ["cache"],
    ["generated", "press", "attention/tile"],  # a family's rule for tiles is one of its tables
    ["cuda"],
    ["cpu"],
    ["call", "inspect", "kept", "press/compile"],
    [path.parent.name for path in sorted((ROOT / "generator").glob("*/family.toml"))],
    ["handle", "environment", "exchange"],
]

# What is still to be turned round: (who, whom). An arrow that is gone must leave this list.
ARROWS_LEFT: set[tuple[str, str]] = set()


def symbols(path: Path) -> tuple[set[str], set[str]]:
    """Names of the project's functions and tables that an object defines, and that it needs."""
    defined, needed = set(), set()
    listing = subprocess.run(["nm", path], capture_output=True, text=True, check=True).stdout
    for line in listing.splitlines():
        kind, name = line.split()[-2:]
        if re.match(r"(ap|attnpress)_", name):
            if kind == "U":
                needed.add(name)
            elif kind.isupper():
                defined.add(name)
    return defined, needed


def object_graph() -> dict[str, set[str]]:
    """For each object ("press/find", "generated/tiles"), those that it needs."""
    if shutil.which("nm") is None:
        pytest.skip("nm was not found")
    objects = {}
    for folder in OBJECTS:
        for path in folder.rglob("*.o"):
            name = str(path.relative_to(folder)).removeprefix("runtime/").removesuffix(".c.o")
            objects[name] = symbols(path)
    if not objects:
        pytest.skip(f"{BUILD} has no objects")
    # Objects of sources that have gone stay in the build folder.
    objects = {
        name: found
        for name, found in objects.items()
        if (ROOT / "runtime" / f"{name}.c").exists() or (ROOT / f"{name}.c").exists()
    }
    owner = {symbol: name for name, (defined, _) in objects.items() for symbol in defined}
    return {
        name: {owner[symbol] for symbol in needed if symbol in owner} - {name}
        for name, (_, needed) in objects.items()
    }


def layer_of(name: str) -> int:
    fitting = [
        (len(place), i)
        for i, layer in enumerate(LAYERS)
        for place in layer
        if name == place or name.startswith(place + "/")
    ]
    assert fitting, f"{name}.c stands in no layer; say in {__file__} which one it is"
    return max(fitting)[1]


def find_circle(graph: dict[str, set[str]]) -> list[str]:
    """Objects that need each other in turn; empty where there is no circle."""
    done: set[str] = set()

    def walk(name: str, path: list[str]) -> list[str]:
        if name in path:
            return [*path[path.index(name) :], name]
        if name in done:
            return []
        for other in sorted(graph[name]):
            if circle := walk(other, [*path, name]):
                return circle
        done.add(name)
        return []

    for name in sorted(graph):
        if circle := walk(name, []):
            return circle
    return []


def test_circles_are_seen():
    assert find_circle({"a": {"b"}, "b": {"c"}, "c": set()}) == []
    assert find_circle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]


def test_no_circles():
    graph = object_graph()
    assert any(graph.values())
    for name, other in ARROWS_LEFT:
        graph[name].discard(other)
    assert find_circle(graph) == []


def test_no_arrow_goes_up():
    arrows = {(name, other) for name, others in object_graph().items() for other in others}
    up = {(name, other) for name, other in arrows if layer_of(other) > layer_of(name)}
    assert up <= ARROWS_LEFT
    assert ARROWS_LEFT <= arrows, "take it off the list"


def test_folders_of_the_builder(tmp_path: Path):
    """Where the build looks for NVRTC is told to the press tool and compiled into nothing."""
    if shutil.which("cmake") is None or shutil.which("ninja") is None:
        pytest.skip("CMake and Ninja are needed")
    configured = subprocess.run(
        [
            *("cmake", "-S", ROOT, "-B", tmp_path, "-G", "Ninja", "-DATTNPRESS_PREBUILT=ON"),
            *("-DATTNPRESS_BUILD_TESTS=OFF", "-DATTNPRESS_NVRTC_DIRS=/a/folder/of/the/builder"),
        ],
        capture_output=True,
        text=True,
    )
    if configured.returncode != 0:
        pytest.skip("no build with linked kernels: " + configured.stderr.splitlines()[0])
    commands = subprocess.run(
        ["ninja", "-C", tmp_path, "-t", "commands"], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    told = [command for command in commands if "/a/folder/of/the/builder" in command]
    assert len(told) == 1
    assert "attnpress-press prebuild" in told[0]
