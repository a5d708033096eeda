"""The wheel and the sdist, as pip sees them. A wheel of this build (ATTNPRESS_WHEEL_FROM), and that
of `make wheel` where the build folder has one, are installed to a folder and used from another,
neither of which is the checkout."""

from __future__ import annotations

import ast
import email
import functools
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

np = pytest.importorskip("numpy")
pytest.importorskip("scikit_build_core", reason="scikit-build-core is not installed")
pytest.importorskip("pip", reason="pip is not installed")

BUILD = Path(
    os.environ.get("ATTNPRESS_BUILD_DIR", Path(__file__).resolve().parent.parent / "build")
)
README = (Path(__file__).resolve().parent.parent / "README.md").read_text()
SIZE_MAX = 20 << 20


def run(*command: str | Path, **keywords) -> str:
    done = subprocess.run(
        [str(word) for word in command], check=False, capture_output=True, text=True, **keywords
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


def pip(*arguments: str | Path, **keywords) -> str:
    return run(sys.executable, "-m", "pip", "-q", *arguments, **keywords)


MADE = sorted((BUILD / "wheel").glob("*.whl"))


@pytest.fixture(scope="session", params=["this build", *(path.name for path in MADE)])
def wheel(request, root, build_dir, tmp_path_factory) -> Path:
    if request.param != "this build":
        return build_dir / "wheel" / request.param
    out = tmp_path_factory.mktemp("wheel")
    setting = f"--config-settings=cmake.define.ATTNPRESS_WHEEL_FROM={build_dir}"
    local = ("--no-deps", "--no-index", "--no-build-isolation")
    pip("wheel", *local, setting, f"--config-settings=build-dir={out / 'cmake'}", "-w", out, root)
    return next(out.glob("*.whl"))


@pytest.fixture(scope="session")
def installed(wheel, tmp_path_factory) -> Path:
    """The folder of packages."""
    folder = tmp_path_factory.mktemp("installed")
    pip("install", "--no-deps", "--no-index", "--target", folder, wheel)
    return folder


@pytest.fixture
def user(installed, tmp_path):
    """Runs a command where the package is that of the wheel, in a folder with nothing in it."""
    ours = ("ATTNPRESS_", "PYTHON", "LD_LIBRARY_PATH")
    environment = {name: v for name, v in os.environ.items() if not name.startswith(ours)}
    environment["ATTNPRESS_CACHE_DIR"] = os.environ["ATTNPRESS_CACHE_DIR"]
    environment["PYTHONPATH"] = str(installed)
    return functools.partial(run, cwd=tmp_path, env=environment)


def test_name(wheel):
    with zipfile.ZipFile(wheel) as archive:
        text = archive.read("attnpress/__init__.py").decode()
    version = re.search(r'__version__ = "(.*)"', text)[1]
    assert re.fullmatch(rf"attnpress-{re.escape(version)}-py3-none-\w*linux_\w+\.whl", wheel.name)
    assert wheel.stat().st_size <= SIZE_MAX


def test_contents(wheel, root):
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if not name.endswith("/")}
        info = next(name for name in names if name.endswith(".dist-info/METADATA"))
        metadata = email.message_from_bytes(archive.read(info))
    package = {name[len("attnpress/") :] for name in names if name.startswith("attnpress/")}
    sources = root / "python" / "attnpress"
    modules = {
        str(path.relative_to(sources))
        for path in sources.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    headers = {
        f"include/attnpress/{path.name}" for path in (root / "include/attnpress").glob("*.h")
    }
    assert "py.typed" in modules and len(headers) >= 4
    assert package == modules | headers | {"attnpress", "libattnpress.so.0"}
    licenses = {name.rpartition("/")[2] for name in names if "/licenses/" in name}
    assert licenses == {"LICENSE", "NOTICE"}
    assert metadata["Requires-Python"] == ">=3.9"
    assert set(metadata.get_all("Provides-Extra")) == {"jit", "jit-cu12"}
    needed = metadata.get_all("Requires-Dist")
    assert any(re.match(r"nvidia-cuda-nvrtc\b(?!-).*extra == .jit\b", line) for line in needed)
    assert all("extra ==" in line for line in needed)  # and nothing else


def test_syntax_of_python_3_9(root):
    for path in (root / "python").rglob("*.py"):
        ast.parse(path.read_text(), str(path), feature_version=(3, 9))


def test_notices(wheel):
    with zipfile.ZipFile(wheel) as archive:
        (notice,) = (name for name in archive.namelist() if name.endswith("/licenses/NOTICE"))
        text = archive.read(notice).decode()
    assert "Zstandard" in text and "xxHash" in text and "Yann Collet" in text


def test_where_it_comes_from(user, installed):
    program = "import attnpress as a; print(a.__file__, a.library_path, a.get_include(), sep='\\n')"
    folder = installed / "attnpress"
    assert user(sys.executable, "-c", program).split() == [
        str(folder / "__init__.py"),
        str(folder / "libattnpress.so.0"),
        str(folder / "include"),
    ]


def python_examples() -> list[str]:
    blocks = re.findall(r"^```python\n(.*?)^```$", README, flags=re.MULTILINE | re.DOTALL)
    return [block for block in blocks if "torch" not in block]


def test_readme(user):
    """All of its examples on arrays, one after the other in one process."""
    examples = python_examples()
    assert len(examples) >= 4
    assert "(1, 128, 8, 72) cpu" in user(sys.executable, "-c", "\n".join(examples))


def doctor(*command: str | Path, **keywords) -> dict:
    """What `doctor --json` prints; its status is 1 where it lacks something, such as a GPU."""
    done = subprocess.run(
        [*map(str, command), "doctor", "--json"], capture_output=True, text=True, **keywords
    )
    found = json.loads(done.stdout)
    assert done.returncode == (0 if found["ok"] else 1), done.stderr
    return found


def test_doctor(user, wheel, build_dir):
    found = doctor(sys.executable, "-m", "attnpress", **user.keywords)
    ours = doctor(build_dir / "attnpress")
    for line in ("attnpress", "CPU backend"):  # the processor's best code, by every compiler
        assert found[line] == ours[line]
    if "manylinux" in wheel.name:
        assert re.match(r"[1-9]\d* kernels, ", found["linked in"][0])
    else:
        assert found["linked in"] == ours["linked in"]


def test_a_c_program(user, installed, tmp_path):
    """By the wheel's headers and library."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    program = re.search(r"^```c\n(.*?)^```$", README, flags=re.MULTILINE | re.DOTALL)[1]
    (tmp_path / "example.c").write_text(program)
    folder = installed / "attnpress"
    flags = ("-std=c11", "-I", folder / "include", f"-Wl,-rpath,{folder}", "-o", "example")
    user("cc", "example.c", *flags, folder / "libattnpress.so.0")
    assert user("./example").startswith("out[0] = ")


def test_types(installed, mypy, tmp_path):
    """mypy finds py.typed beside what is installed."""
    environment = tmp_path / "environment"
    venv.create(environment, symlinks=True)
    (site,) = environment.glob("lib/python3*/site-packages")
    (site / "wheel.pth").write_text(f"{installed}\n")
    lines = (
        "import attnpress",
        "x: str = attnpress.get_include()",
        "y: int = attnpress.library_path",
    )
    (tmp_path / "user.py").write_text("\n".join(lines) + "\n")
    python = environment / "bin" / "python"
    found = mypy("--strict", "--python-executable", python, "user.py", cwd=tmp_path)
    assert found.count("error:") == 1 and found.startswith("user.py:3: error: Incompatible"), found


def test_a_build_that_is_not_there(root, tmp_path):
    done = subprocess.run(
        ["cmake", "-S", root, "-B", tmp_path, "-DSKBUILD=ON", f"-DATTNPRESS_WHEEL_FROM={tmp_path}"],
        capture_output=True,
        text=True,
    )
    assert done.returncode != 0
    said = " ".join(done.stderr.split())
    assert f"ATTNPRESS_WHEEL_FROM is {tmp_path}, which has no attnpress" in said


# ---- The sdist -----------------------------------------------------------------------------------

OBJECTS = re.compile(r"CMakeFiles/attnpress_(generated|reference|runtime_shown|tool)\.dir/\S+: ")


def sources_of(build_dir: Path, root: Path) -> set[str]:
    """The files of the checkout that the library and the tool were compiled from, as the compiler
    reported them to ninja."""
    cache = (build_dir / "CMakeCache.txt").read_text()
    ninja = re.search(r"^CMAKE_MAKE_PROGRAM:FILEPATH=(.*/ninja.*)$", cache, flags=re.MULTILINE)
    if ninja is None:
        pytest.skip("the build folder is not Ninja's")
    found: set[str] = set()
    ours = False
    for line in run(ninja[1], "-C", build_dir, "-t", "deps").splitlines():
        if not line.startswith(" "):
            ours = OBJECTS.match(line) is not None
        elif ours:
            path = (build_dir / line.strip()).resolve()
            if path.is_relative_to(root) and not path.is_relative_to(build_dir.resolve()):
                found.add(str(path.relative_to(root)))
    return found


def test_sdist(root, build_dir, tmp_path):
    """It holds all that the library and the tool are built from, and CMake takes it."""
    environment = {**os.environ, "PYTHON": sys.executable}
    made = run(root / "tools" / "wheel.sh", tmp_path, "sdist", env=environment)
    with tarfile.open(made.strip()) as archive:
        archive.extractall(tmp_path)
    (folder,) = (path.parent for path in tmp_path.glob("attnpress-*/PKG-INFO"))
    files = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    sources = sources_of(build_dir, root)
    assert len(sources) > 200
    assert sources <= files, sorted(sources - files)
    assert {"third_party/xxhash.h", "LICENSE", "NOTICE", "python/attnpress/py.typed"} <= files
    assert not any(name.startswith(("tests/", "bench/", "build", ".")) for name in files)
    options = ("-DSKBUILD=ON", "-DATTNPRESS_PREBUILT=OFF", "-DATTNPRESS_BUILD_TESTS=OFF")
    run("cmake", "-S", folder, "-B", tmp_path / "cmake", "-G", "Ninja", *options)
    run("cmake", "--build", tmp_path / "cmake", "--target", "wheel-files", "--", "-n")


# ---- The wheel of `make wheel` ------------------------------------------------------------------


def test_platform_tag(wheel):
    """What auditwheel says of its symbols: glibc 2.28 or older is enough."""
    if "manylinux" not in wheel.name:
        if MADE:
            return  # it is for this machine
        pytest.skip("`make wheel` was not run: what it makes was not looked at")
    pytest.importorskip("auditwheel", reason="auditwheel is not installed")
    assert f"manylinux_2_28_{platform.machine()}" in wheel.name
    out = run(sys.executable, "-m", "auditwheel", "show", wheel)
    minor = re.search(rf'platform tag: "manylinux_2_(\d+)_{platform.machine()}"', out)
    assert minor and int(minor[1]) <= 28, out
